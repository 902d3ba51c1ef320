// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	minStreamBytes = 256 << 10
	// maxPrefixBytes is how much of an oversized value is kept, to read the name
	// of the object from it.
	maxPrefixBytes = 256 << 10
	// maxSkippedBytes limits how much of an oversized value is read to skip it.
	maxSkippedBytes = 1 << 30
	// maxEmptyReads is how often a reader may return nothing and no error.
	maxEmptyReads = 100
)

// errSyntax is returned for a body that is not the JSON of a list.
var errSyntax = errors.New("response is not valid JSON")

// stream finds the ends of the values of a body while it arrives. It only looks for strings
// and brackets, and therefore needs neither a limit of the nesting depth nor memory that grows
// with it. It does not check whether a value is valid JSON. Values that it returns stay
// valid until the next call.
type stream struct {
	body io.Reader
	// buf has the bytes that were read, and next is the index of the first unconsumed byte.
	buf  []byte
	next int
	// err is the error that ended the body.
	err   error
	total int64
}

func (s *stream) resetBody(body io.Reader) {
	buf := s.buf[:0]
	if cap(buf) > maxPooledBytes {
		buf = nil
	}
	*s = stream{body: body, buf: buf}
}

// fillBuffer reads more. It may move the unconsumed bytes.
func (s *stream) fillBuffer() error {
	if s.err != nil {
		return s.err
	}
	if len(s.buf) == cap(s.buf) {
		kept := s.buf[s.next:]
		if len(kept) > cap(s.buf)/2 || cap(s.buf) == 0 {
			s.buf = append(make([]byte, 0, max(2*cap(s.buf), minStreamBytes)), kept...)
		} else {
			s.buf = append(s.buf[:0], kept...)
		}
		s.next = 0
	}
	// Few long windows are faster than many short ones: an object crosses each edge.
	before, enough := len(s.buf), len(s.buf)+(cap(s.buf)-len(s.buf)+1)/2
	for empty := 0; s.err == nil && len(s.buf) < enough; {
		n, err := s.body.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		s.total += int64(n)
		s.err = err
		if empty++; n > 0 {
			empty = 0
		} else if empty == maxEmptyReads && err == nil {
			s.err = io.ErrNoProgress
		}
	}
	if len(s.buf) > before {
		return nil
	}
	return s.err
}

// bufferedBytes returns the unconsumed bytes.
func (s *stream) bufferedBytes() []byte { return s.buf[s.next:] }

// consumeBytes consumes n buffered bytes.
func (s *stream) consumeBytes(n int) { s.next += n }

// requireMore is fillBuffer where the body must not end yet.
func (s *stream) requireMore() error {
	err := s.fillBuffer()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// peekToken returns the first byte of the next token. The error is io.EOF after the last token.
func (s *stream) peekToken() (byte, error) {
	for {
		if s.next = skipWhitespace(s.buf, s.next); s.next < len(s.buf) {
			return s.buf[s.next], nil
		}
		if err := s.fillBuffer(); err != nil {
			return 0, err
		}
	}
}

// consumeToken consumes one of the bytes of wanted, and returns it.
func (s *stream) consumeToken(wanted string) (byte, error) {
	found, err := s.peekToken()
	switch {
	case errors.Is(err, io.EOF):
		return 0, io.ErrUnexpectedEOF
	case err != nil:
		return 0, err
	case strings.IndexByte(wanted, found) < 0:
		return 0, fmt.Errorf("%w: found %q where %q was expected", errSyntax, found, wanted)
	}
	s.next++
	return found, nil
}

// consumeValue consumes a value and returns its bytes. If the value has more than limit bytes, it
// returns only the beginning, and whole is false.
func (s *stream) consumeValue(limit int) (raw []byte, whole bool, err error) {
	if _, err := s.peekToken(); err != nil {
		return nil, false, s.requireMore()
	}
	var end endFinder
	for length := 0; ; {
		n, found := end.findValueEnd(s.buf[s.next+length:])
		length += n
		switch {
		case length > limit:
			return s.skipOversizedValue(&end, length, found)
		case found && length == 0:
			return nil, false, fmt.Errorf("%w: found %q where a value was expected", errSyntax, s.buf[s.next])
		case found:
			raw = s.buf[s.next : s.next+length]
			s.next += length
			return raw, true, nil
		}
		if err := s.requireMore(); err != nil {
			return nil, false, err
		}
	}
}

// skipOversizedValue consumes the rest of a value after length bytes, and returns its
// beginning.
func (s *stream) skipOversizedValue(end *endFinder, length int, found bool) (prefix []byte, whole bool, err error) {
	prefix = bytes.Clone(s.buf[s.next : s.next+min(length, maxPrefixBytes)])
	s.next += length
	for skipped := length; !found; {
		if skipped > maxSkippedBytes {
			return nil, false, fmt.Errorf("%w: a value does not end within %d bytes", errNotList, maxSkippedBytes)
		}
		if s.next == len(s.buf) {
			s.buf, s.next = s.buf[:0], 0
		}
		if err := s.requireMore(); err != nil {
			return nil, false, err
		}
		var n int
		n, found = end.findValueEnd(s.buf[s.next:])
		s.next += n
		skipped += n
	}
	return prefix, false, nil
}

// endFinder finds the end of one value that arrives in parts.
type endFinder struct {
	depth             int
	inString, escaped bool
}

// The relevant bytes outside of strings.
const (
	isQuote = 1 + iota
	isOpening
	isClosing
	isDelimiter
)

var structural = [256]byte{
	'"': isQuote, '{': isOpening, '[': isOpening, '}': isClosing, ']': isClosing,
	',': isDelimiter, ':': isDelimiter, ' ': isDelimiter, '\t': isDelimiter, '\n': isDelimiter, '\r': isDelimiter,
}

// findValueEnd returns how many of the next bytes belong to the value, and whether it ends after
// them.
func (f *endFinder) findValueEnd(b []byte) (n int, found bool) {
	for n < len(b) {
		if f.inString {
			n += f.skipString(b[n:])
			if f.depth == 0 && !f.inString {
				return n, true
			}
			continue
		}
		class := structural[b[n]]
		switch class {
		case isQuote:
			f.inString = true
		case isOpening:
			f.depth++
		case isClosing:
			if f.depth == 0 {
				return n, true // the byte after a number or literal
			}
			if f.depth--; f.depth == 0 {
				return n + 1, true
			}
		case isDelimiter:
			if f.depth == 0 {
				return n, true
			}
		}
		n++
	}
	return n, false
}

// skipString returns how many bytes of b belong to the string in which b starts.
func (f *endFinder) skipString(b []byte) int {
	n := 0
	if f.escaped {
		f.escaped, n = false, 1
	}
	quote := bytes.IndexByte(b[n:], '"')
	text := b[n:]
	if quote >= 0 {
		text = text[:quote]
	}
	backslashes := 0
	for i := len(text) - 1; i >= 0 && text[i] == '\\'; i-- {
		backslashes++
	}
	odd := backslashes%2 == 1
	if quote < 0 {
		f.escaped = odd
		return len(b)
	}
	f.inString = odd
	return n + quote + 1
}
