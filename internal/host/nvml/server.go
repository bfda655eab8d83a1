// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"gpufabric_exporter/internal/fabric"
)

// Server answers the requests of a Client, in the process that the library is loaded into.
type Server struct {
	path   string
	object *object
	lib    nvml.Interface
	reader *reader // nil: NVML is not initialised
	epoch  uint64
	inits  int
	stale  bool
	buf    []byte
}

// NewServer returns a Server for that library; an empty name means fabric.NVMLLibrary. Nothing is loaded
// before the first request.
func NewServer(library string) *Server {
	if library == "" {
		library = fabric.NVMLLibrary
	}
	return &Server{path: library, epoch: rand.Uint64() | 1}
}

// Handle answers a request; the answer is the caller's until the next one. An error means a request that cannot be
// understood; whatever is wrong with the library or the driver is an answer.
func (s *Server) Handle(ctx context.Context, raw []byte) ([]byte, error) {
	var q request
	if err := decode(raw, time.Time{}, q.walk); err != nil {
		return nil, err
	}
	if q.tier > running {
		return nil, fabric.Because(fabric.ReasonMalformed, fmt.Sprintf("nvml: request of tier %d", q.tier))
	}
	p := s.answer(ctx, q)
	s.buf = encode(s.buf, p.walk)
	return s.buf, nil
}

// Stale reports whether this process will not get an answer out of the driver any more, because it has the
// library of another driver loaded and cannot load the new one. A new process can. It is asked after each
// Handle.
func (s *Server) Stale() bool { return s.stale }

// Close releases all GPUs. The next request takes hold of them again.
func (s *Server) Close() error {
	if s.reader == nil {
		return nil
	}
	s.reader = nil
	if !s.object.has("nvmlShutdown") {
		return fabric.Because(fabric.ReasonMissing, "nvml: no nvmlShutdown")
	}
	if ret := s.lib.Shutdown(); ret != nvml.SUCCESS {
		return answers("nvmlShutdown", ret)
	}
	return nil
}

func (s *Server) answer(ctx context.Context, q request) (p *reply) {
	defer func() {
		if r := recover(); r != nil { // go-nvml does not check lengths
			p = &reply{status: failed, reason: fabric.ReasonPanic, text: clean(fmt.Sprint("reading fails: ", r))}
		}
	}()
	if s.reader == nil {
		if p := s.open(q); p != nil {
			return p
		}
	}
	if q.tier == running {
		return s.running(ctx)
	}
	t := q.tier
	if q.epoch != s.epoch {
		t = all
	}
	// Twice, because GPUs that are lost or found in the course of it change what the client must receive.
	for range 2 {
		changed, err := s.reader.read(ctx, t)
		switch {
		case err != nil:
			return s.gone(err)
		case changed && t != all:
			s.epoch++
			t = all
			continue
		}
		break
	}
	return &reply{tier: t, epoch: s.epoch, driver: s.reader.d}
}

// running lists the processes. The first time all is read, because GPUs have to be found and named.
func (s *Server) running(ctx context.Context) *reply {
	read := s.reader.readProcesses
	if s.reader.gpus == nil {
		read = func(ctx context.Context) error {
			_, err := s.reader.read(ctx, all)
			return err
		}
	}
	if err := read(ctx); err != nil {
		return s.gone(err)
	}
	return &reply{tier: running, epoch: s.epoch, driver: s.reader.d}
}

// gone answers that reading failed, and releases a driver that is not there any more.
func (s *Server) gone(err error) *reply {
	if errors.Is(err, errNoDriver) || errors.Is(err, errReleased) {
		_ = s.Close() // there is nothing left to release
	}
	if errors.Is(err, errNoDriver) {
		return &reply{status: noDriver}
	}
	return failure(err)
}

// open loads the library and initialises it. It returns nil, or the answer when that fails.
func (s *Server) open(q request) *reply {
	if s.object == nil {
		o, err := openObject(s.path)
		if errors.Is(err, fs.ErrNotExist) {
			return &reply{status: noLibrary}
		} else if err != nil {
			return failure(fmt.Errorf("load %s: %w", s.path, err))
		}
		s.object, s.lib = o, nvml.New(nvml.WithLibraryPath(s.path))
	}
	if !s.object.has("nvmlInit_v2", "nvmlInit") {
		return failure(fabric.Because(fabric.ReasonMissing, s.path+" has no nvmlInit"))
	}
	s.inits++
	switch ret := s.lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_DRIVER_NOT_LOADED:
		return &reply{status: noDriver}
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		// The library may have been replaced since it was loaded. Trying so once a minute costs little.
		s.stale = s.inits > 1 && q.tier != fast
		return &reply{status: mismatch}
	default:
		return failure(answers("nvmlInit", ret))
	}
	s.epoch++
	s.reader = newReader(s.lib, s.object.has)
	s.reader.device, s.reader.processes = s.object.device, s.object.processes
	return nil
}

func failure(err error) *reply {
	return &reply{status: failed, reason: fabric.ReasonOf(err), text: clean(err.Error())}
}

// clean makes a text that may go over the wire.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), maxMessage)]
}
