// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// MaxKeyLength is the longest key in bytes, the limit of S3.
	MaxKeyLength = 1024
	// MaxSegmentLength is the longest part between two slashes in bytes, the
	// limit of file systems.
	MaxSegmentLength = 255
	// ReservedPrefix starts segments that stores use for their own files.
	ReservedPrefix = ".grapnel-tmp-"
)

// ValidateKey checks a key against the rules of all stores, so that a key that works in one
// store works in every other: valid UTF-8 without control characters and backslashes, at
// most 1024 bytes, segments between slashes of 1 to 255 bytes, none of them "." or ".." or
// starting with ReservedPrefix. The error is ErrInvalidKey with the reason.
func ValidateKey(key string) error {
	if err := checkKey(key); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	return nil
}

// ValidatePrefix checks a prefix for List: empty, or a key that ValidateKey accepts, with
// an optional trailing slash.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := checkKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return fmt.Errorf("%w: prefix: %w", ErrInvalidKey, err)
	}
	return nil
}

func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("is empty")
	case len(key) > MaxKeyLength:
		return fmt.Errorf("has %d bytes, more than %d", len(key), MaxKeyLength)
	case !utf8.ValidString(key):
		return errors.New("is not valid UTF-8")
	case strings.ContainsFunc(key, isForbiddenRune):
		return errors.New("contains a control character or a backslash")
	}
	for segment := range strings.SplitSeq(key, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

func checkSegment(segment string) error {
	switch {
	case segment == "":
		return errors.New("starts or ends with a slash or has two in a row")
	case segment == "." || segment == "..":
		return fmt.Errorf("contains the segment %q", segment)
	case len(segment) > MaxSegmentLength:
		return fmt.Errorf("has a segment of %d bytes (%q...), more than %d",
			len(segment), segment[:32], MaxSegmentLength)
	case strings.HasPrefix(segment, ReservedPrefix):
		return fmt.Errorf("has a segment that starts with the reserved %q", ReservedPrefix)
	}
	return nil
}

func isForbiddenRune(r rune) bool {
	return r < 0x20 || r == 0x7f || r == '\\'
}
