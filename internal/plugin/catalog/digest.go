// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/grapnel-dev/grapnel/internal/plugin/host"
)

// binaryDigest is a binary with its digest.
type binaryDigest struct {
	fileInfo os.FileInfo
	digest   string
}

// digestFile returns the digest of the binary at path. The file is not read again if known
// describes it, judged by identity, size and modification time.
func digestFile(path string, known binaryDigest) (binaryDigest, error) {
	if err := host.CheckExecutable(path); err != nil {
		return binaryDigest{}, err
	}
	file, err := os.Open(path)
	if err != nil {
		return binaryDigest{}, fmt.Errorf("opening the binary: %w", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return binaryDigest{}, fmt.Errorf("reading the attributes of the binary: %w", err)
	}
	if known.fileInfo != nil && os.SameFile(info, known.fileInfo) && info.Size() == known.fileInfo.Size() &&
		info.ModTime().Equal(known.fileInfo.ModTime()) {
		return known, nil
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return binaryDigest{}, fmt.Errorf("reading the binary: %w", err)
	}
	return binaryDigest{fileInfo: info, digest: hex.EncodeToString(hash.Sum(nil))}, nil
}
