// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxReply is the longest answer in bytes.
const maxReply = 4 << 20

// maxRequest is the longest request in bytes. Requests are questions; what is long is the answer.
const maxRequest = 64 << 10

// A frame on a pipe is its length (4 bytes, big-endian, of all that follows), its kind (1 byte), the number of
// the request (4 bytes) and the payload. The number keeps an answer that was not requested from being taken for
// the answer to the next question.
type frame struct {
	kind    byte
	number  uint32
	payload []byte
}

// Kinds of frames.
const (
	kindRequest byte = 'q'
	kindAnswer  byte = 'a'
	kindError   byte = 'e' // the payload says why there is no answer
)

const (
	lengthSize = 4
	headSize   = 1 + 4 // kind and number
)

// errFrame is an error of what was read, not of the reading.
var errFrame = errors.New("not a frame")

// writeFrame writes f with one call of Write.
func writeFrame(w io.Writer, f frame) error {
	b := make([]byte, 0, lengthSize+headSize+len(f.payload))
	b = binary.BigEndian.AppendUint32(b, uint32(headSize+len(f.payload)))
	b = append(b, f.kind)
	b = binary.BigEndian.AppendUint32(b, f.number)
	_, err := w.Write(append(b, f.payload...))
	return err
}

// readFrame reads a frame with a payload of at most limit bytes. The error is io.EOF when r ends before the frame
// begins, and an errFrame when what comes cannot be one.
func readFrame(r io.Reader, limit int) (frame, error) {
	var head [lengthSize + headSize]byte
	if _, err := io.ReadFull(r, head[:lengthSize]); err != nil {
		return frame{}, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n < headSize || n > int64(limit)+headSize {
		return frame{}, fmt.Errorf("%w: length %d (%q), expected %d to %d", errFrame, n, head[:lengthSize], headSize,
			int64(limit)+headSize)
	}
	if _, err := io.ReadFull(r, head[lengthSize:]); err != nil {
		return frame{}, unexpected(err)
	}
	f := frame{
		kind: head[lengthSize], number: binary.BigEndian.Uint32(head[lengthSize+1:]),
		payload: make([]byte, n-headSize),
	}
	if f.kind != kindRequest && f.kind != kindAnswer && f.kind != kindError {
		return frame{}, fmt.Errorf("%w: kind %q, expected %q, %q or %q", errFrame, f.kind, kindRequest, kindAnswer, kindError)
	}
	if _, err := io.ReadFull(r, f.payload); err != nil {
		return frame{}, unexpected(err)
	}
	return f, nil
}

// unexpected makes an end within a frame an error of its own.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
