// SPDX-License-Identifier: Apache-2.0

package worker

import "os"

// pipes are those between this process and a child: R is the end to read from, W the one to write to.
type pipes struct {
	requestsR, requestsW *os.File
	repliesR, repliesW   *os.File
	printsR, printsW     *os.File // its standard output and error
	logR, logW           *os.File // the log of its library; nil: none was asked for
}

func openPipes(withLog bool) (*pipes, error) {
	p := new(pipes)
	wanted := [][2]**os.File{
		{&p.requestsR, &p.requestsW},
		{&p.repliesR, &p.repliesW},
		{&p.printsR, &p.printsW},
		{&p.logR, &p.logW},
	}
	if !withLog {
		wanted = wanted[:3]
	}
	for _, ends := range wanted {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, err
		}
		*ends[0], *ends[1] = r, w
	}
	return p, nil
}

// theirs is what the child gets besides the standard streams: as requestsFD, repliesFD and logFD.
func (p *pipes) theirs() []*os.File {
	files := []*os.File{p.requestsR, p.repliesW}
	if p.logW != nil {
		files = append(files, p.logW)
	}
	return files
}

// closeTheirs closes what belongs to the child. A nil *os.File says that it is not valid.
func (p *pipes) closeTheirs() {
	for _, f := range []*os.File{p.requestsR, p.repliesW, p.printsW, p.logW} {
		f.Close()
	}
}

// close may be called more than once.
func (p *pipes) close() {
	p.closeTheirs()
	for _, f := range []*os.File{p.requestsW, p.repliesR, p.printsR, p.logR} {
		f.Close()
	}
}
