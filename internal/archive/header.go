// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"bytes"
	"fmt"
	"time"
)

const (
	blockSize = 512
	// fileMode of every entry, as Velero writes it.
	fileMode = 0o755

	ustarNameLen   = 100
	ustarPrefixLen = 155
	ustarMaxSize   = 1<<33 - 1

	ustarSizeOffset     = 124
	ustarSizeDigits     = 11
	ustarChecksumOffset = 148
	ustarChecksumDigits = 6
	ustarPrefixOffset   = 345
)

// headerFormatter formats tar headers. Two headers are written per object, and the general
// code of archive/tar is a measurable part of a backup. So headers that differ only in name
// and size are created from a template written by archive/tar, and archive/tar itself
// formats all others.
type headerFormatter struct {
	modTime  time.Time
	template [blockSize]byte
	// sum of the template's bytes, with the checksum field as spaces and the
	// size field as NUL.
	sum int
}

// newHeaderFormatter creates the template.
func newHeaderFormatter(modTime time.Time) (*headerFormatter, error) {
	h := &headerFormatter{modTime: modTime.Truncate(time.Second)}
	block, err := h.formatGenericHeader("x", 0)
	if err != nil {
		return nil, fmt.Errorf("creating a tar header: %w", err)
	}
	copy(h.template[:], block)
	h.template[0] = 0
	clear(h.template[ustarSizeOffset : ustarSizeOffset+ustarSizeDigits])
	checksum := h.template[ustarChecksumOffset : ustarChecksumOffset+8]
	copy(checksum, "        ")
	for _, c := range h.template {
		h.sum += int(c)
	}
	return h, nil
}

// appendHeader appends the header blocks of a regular file to b.
func (h *headerFormatter) appendHeader(b, path []byte, size int) ([]byte, error) {
	prefix, name, ok := splitUSTARPath(path)
	if !ok || size > ustarMaxSize {
		block, err := h.formatGenericHeader(string(path), size)
		return append(b, block...), err
	}
	start := len(b)
	b = append(b, h.template[:]...)
	block := b[start:]
	copy(block, name)
	copy(block[ustarPrefixOffset:], prefix)
	sum := h.sum + byteSum(name) + byteSum(prefix)
	sum += putOctal(block[ustarSizeOffset:ustarSizeOffset+ustarSizeDigits], size)
	checksum := block[ustarChecksumOffset : ustarChecksumOffset+ustarChecksumDigits]
	putOctal(checksum, sum)
	block[ustarChecksumOffset+ustarChecksumDigits] = 0
	return b, nil
}

// formatGenericHeader formats any header, extended (PAX) if necessary.
func (h *headerFormatter) formatGenericHeader(path string, size int) ([]byte, error) {
	var out bytes.Buffer
	err := tar.NewWriter(&out).WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg,
		Name:     path,
		Size:     int64(size),
		Mode:     fileMode,
		ModTime:  h.modTime,
	})
	return out.Bytes(), err
}

// splitUSTARPath divides a path into the two fields of a plain header. It reports
// false if the path does not fit or is not plain ASCII.
func splitUSTARPath(path []byte) (prefix, name []byte, ok bool) {
	for _, c := range path {
		if c >= 0x80 {
			return nil, nil, false
		}
	}
	if len(path) <= ustarNameLen {
		return nil, path, true
	}
	cut := bytes.LastIndexByte(path[:min(len(path), ustarPrefixLen+1)], '/')
	if cut <= 0 || len(path)-cut-1 > ustarNameLen {
		return nil, nil, false
	}
	return path[:cut], path[cut+1:], true
}

// putOctal fills field with the digits of v and returns the sum of their bytes.
func putOctal(field []byte, v int) int {
	var sum int
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = '0' + byte(v&7)
		sum += int(field[i])
		v >>= 3
	}
	return sum
}

func byteSum(s []byte) int {
	var sum int
	for _, c := range s {
		sum += int(c)
	}
	return sum
}
