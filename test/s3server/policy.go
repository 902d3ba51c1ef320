// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	headerEncryption = "X-Amz-Server-Side-Encryption"
	headerKey        = headerEncryption + "-Aws-Kms-Key-Id"
	headerChecksum   = "X-Amz-Checksum-"
	headerAlgorithm  = headerChecksum + "Algorithm"
)

// isObjectCreated reports whether a request creates an object, or begins an upload of one.
func isObjectCreated(r *http.Request) bool {
	q := r.URL.Query()
	return r.Method == http.MethodPut && !q.Has("partNumber") || r.Method == http.MethodPost && q.Has("uploads")
}

// withRequiredEncryption denies objects without the encryption, as a policy of a bucket does:
// AES256, aws:kms or aws:kms=KEY. Requests about parts must not have the headers.
func withRequiredEncryption(required string, next http.Handler) http.Handler {
	algorithm, key, _ := strings.Cut(required, "=")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		has := r.Header.Get(headerEncryption)
		switch {
		case isObjectCreated(r) && (has != algorithm || r.Header.Get(headerKey) != key):
			writeS3Error(w, http.StatusForbidden, "AccessDenied", "The policy of the bucket requires an encryption")
		case !isObjectCreated(r) && has != "":
			writeS3Error(w, http.StatusBadRequest, "InvalidArgument", headerEncryption+" header is not supported for this operation.")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// newHash returns the hash of an algorithm of checksums; nil if it is unknown.
func newHash(algorithm string) hash.Hash {
	switch algorithm {
	case "MD5":
		return md5.New()
	case "CRC32":
		return crc32.NewIEEE()
	case "CRC32C":
		return crc32.New(crc32.MakeTable(crc32.Castagnoli))
	case "SHA1":
		return sha1.New()
	case "SHA256":
		return sha256.New()
	}
	return nil
}

// checksummer verifies the checksums of objects and parts as Amazon does.
type checksummer struct {
	next http.Handler
	// required is the algorithm that a request must use; None refuses all.
	required string

	mu sync.Mutex
	// uploads maps the ID of each upload to the checksums of its parts.
	uploads map[string]map[int]string
}

// requestChecksum returns the checksum of the content of a request, and its algorithm; empty if it has none.
func requestChecksum(header http.Header) (algorithm, value string) {
	if value := header.Get("Content-Md5"); value != "" {
		return "MD5", value
	}
	for name := range header {
		if algorithm, found := strings.CutPrefix(name, headerChecksum); found && name != headerAlgorithm {
			return strings.ToUpper(algorithm), header.Get(name)
		}
	}
	return "", ""
}

// ServeHTTP implements http.Handler.
func (c *checksummer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var err error
	switch {
	case r.Method == http.MethodPut:
		err = c.checkContent(r)
		// Amazon answers with the checksum, and clients state those of parts in the completion.
		if algorithm, value := requestChecksum(r.Header); err == nil && algorithm != "" && algorithm != "MD5" {
			w.Header().Set(headerChecksum+algorithm, value)
		}
	case r.Method == http.MethodPost && q.Has("uploads"):
		err = c.checkUpload(r)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		err = c.checkCompletion(r)
	}
	if err != nil {
		code, message, _ := strings.Cut(err.Error(), ": ")
		status := http.StatusBadRequest
		if code == "NotImplemented" {
			status = http.StatusNotImplemented
		}
		writeS3Error(w, status, code, message)
		return
	}
	c.next.ServeHTTP(w, r)
}

func (c *checksummer) checkAlgorithm(algorithm string) error {
	switch {
	case c.required == "None" && algorithm != "":
		return fmt.Errorf("NotImplemented: A header you provided implies functionality that is not implemented")
	case c.required != "" && c.required != "None" && algorithm != c.required:
		return fmt.Errorf("InvalidRequest: The request needs a checksum %s, and has %q", c.required, algorithm)
	}
	return nil
}

// checkContent verifies the content of an object or a part.
func (c *checksummer) checkContent(r *http.Request) error {
	algorithm, value := requestChecksum(r.Header)
	if err := c.checkAlgorithm(algorithm); err != nil || algorithm == "" {
		return err
	}
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("IncompleteBody: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	h := newHash(algorithm)
	if h == nil {
		return fmt.Errorf("InvalidRequest: There is no checksum %s", algorithm)
	}
	_, _ = h.Write(content) // a hash does not fail
	if base64.StdEncoding.EncodeToString(h.Sum(nil)) != value {
		return fmt.Errorf("BadDigest: The %s you specified did not match the calculated checksum.", algorithm)
	}
	if number, err := strconv.Atoi(r.URL.Query().Get("partNumber")); err == nil && algorithm != "MD5" {
		c.recordPart(r, number, value)
	}
	return nil
}

// checkUpload checks what an upload announces.
func (c *checksummer) checkUpload(r *http.Request) error {
	algorithm := r.Header.Get(headerAlgorithm)
	if c.required == "MD5" {
		return nil // only the parts have it
	}
	return c.checkAlgorithm(algorithm)
}

func (c *checksummer) recordPart(r *http.Request, number int, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := r.URL.Query().Get("uploadId")
	if c.uploads == nil {
		c.uploads = map[string]map[int]string{}
	}
	if c.uploads[id] == nil {
		c.uploads[id] = map[int]string{}
	}
	c.uploads[id][number] = value
}

// checkCompletion compares the checksums of parts with those that were uploaded.
func (c *checksummer) checkCompletion(r *http.Request) error {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("IncompleteBody: %w", err)
	}
	r.Body = io.NopCloser(bytes.NewReader(content))
	var completion struct {
		Part []struct {
			PartNumber                                                  int
			ChecksumCRC32, ChecksumCRC32C, ChecksumSHA1, ChecksumSHA256 string
		}
	}
	if err := xml.Unmarshal(content, &completion); err != nil {
		return fmt.Errorf("MalformedXML: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stored := c.uploads[r.URL.Query().Get("uploadId")]
	for _, part := range completion.Part {
		if part.ChecksumCRC32+part.ChecksumCRC32C+part.ChecksumSHA1+part.ChecksumSHA256 != stored[part.PartNumber] {
			return fmt.Errorf("InvalidPart: The checksum of part %d is not that of the part", part.PartNumber)
		}
	}
	return nil
}
