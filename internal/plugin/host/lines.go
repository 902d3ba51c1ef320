// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLineBytes is the maximum length of one line of a plugin's log; longer lines are
// truncated.
const maxLineBytes = MaxLineBytes

// readLines calls handle for every line until in ends. The slice is valid only
// during the call; cut says that the end of the line is missing.
func readLines(in io.Reader, handle func(line []byte, cut bool)) {
	reader := bufio.NewReaderSize(in, maxLineBytes)
	for {
		line, err := reader.ReadSlice('\n')
		cut := errors.Is(err, bufio.ErrBufferFull)
		if text := bytes.TrimRight(line, "\r\n"); len(text) > 0 {
			handle(text, cut)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = reader.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// lineWriter calls handle for every line written to it. It is not safe for concurrent use.
type lineWriter struct {
	handle func(line []byte, cut bool)
	buffer []byte
	skip   bool
}

// Write never fails.
func (w *lineWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		line, rest, complete := bytes.Cut(p, []byte{'\n'})
		p = rest
		if !w.skip {
			take := min(len(line), maxLineBytes-len(w.buffer))
			w.buffer = append(w.buffer, line[:take]...)
			w.skip = take < len(line)
			if complete || w.skip {
				w.flushLine()
			}
		}
		if complete {
			w.skip = false
		}
	}
	return n, nil
}

func (w *lineWriter) flushLine() {
	if text := bytes.TrimRight(w.buffer, "\r"); len(text) > 0 {
		w.handle(text, w.skip)
	}
	w.buffer = w.buffer[:0]
}
