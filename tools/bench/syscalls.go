// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// traced is the time between scrapes under strace, which makes them slow.
const traced = 250 * time.Millisecond

// countSyscalls compares a short and a longer run of each program under strace. It returns nothing where strace
// is not installed.
func countSyscalls(programs []program) ([]float64, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		fmt.Println("strace is not installed: system calls are not counted")
		return nil, nil
	}
	const few, many = 4, 44
	var calls []float64
	for _, p := range programs {
		var total [2]float64
		for i, turns := range []int{few, many} {
			if total[i], err = trace(strace, p, turns); err != nil {
				return nil, err
			}
		}
		calls = append(calls, (total[1]-total[0])/(many-few))
	}
	return calls, nil
}

func trace(strace string, what program, turns int) (float64, error) {
	out, err := os.CreateTemp("", "strace")
	if err != nil {
		return 0, err
	}
	out.Close()
	defer os.Remove(out.Name())
	what.args = append([]string{strace, "-f", "-c", "-o", out.Name()}, what.args...)
	p, err := start(what)
	if err != nil {
		return 0, err
	}
	for i := 0; i < turns && err == nil; i++ {
		_, err = p.scrape(prometheus)
		time.Sleep(traced)
	}
	p.stop()
	if err != nil {
		return 0, err
	}
	return straceTotal(out.Name())
}

// straceTotal adds up the column "calls", without what the runtime waits with.
func straceTotal(path string) (float64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 5 || f[len(f)-1] == "total" || f[len(f)-1] == "futex" || f[len(f)-1] == "nanosleep" ||
			strings.Contains(f[len(f)-1], "epoll_pwait") {
			continue
		}
		if n, err := strconv.ParseFloat(f[3], 64); err == nil {
			sum += n
		}
	}
	return sum, nil
}
