// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/grapnel-dev/grapnel/internal/plugin/process"
)

// digested is a binary whose digest is known.
type digested struct {
	info   os.FileInfo
	digest string
}

// digestOf returns the digest of the binary at path. The file is not read again if
// it is the one that known describes, going by identity, size and time of change.
func digestOf(path string, known digested) (digested, error) {
	if err := process.CheckFile(path); err != nil {
		return digested{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return digested{}, fmt.Errorf("opening the binary: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return digested{}, fmt.Errorf("looking at the binary: %w", err)
	}
	if known.info != nil && os.SameFile(info, known.info) && info.Size() == known.info.Size() &&
		info.ModTime().Equal(known.info.ModTime()) {
		return known, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return digested{}, fmt.Errorf("reading the binary: %w", err)
	}
	return digested{info: info, digest: hex.EncodeToString(hash.Sum(nil))}, nil
}
