// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"crypto/md5" //nolint:gosec // Content-MD5 is what every server checks; it guards against accidents only.
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// ChecksumAlgorithm is how a server detects that content was damaged on its way.
type ChecksumAlgorithm string

// The algorithms of checksums. The zero value means ChecksumMD5.
const (
	// ChecksumMD5 sends a Content-MD5, which every server checks and none stores.
	ChecksumMD5 ChecksumAlgorithm = "MD5"
	// ChecksumNone sends nothing, for servers that support no other. The signature of a request
	// still covers its content.
	ChecksumNone ChecksumAlgorithm = "None"

	// The server stores these with the object.
	ChecksumCRC32  ChecksumAlgorithm = "CRC32"
	ChecksumCRC32C ChecksumAlgorithm = "CRC32C"
	ChecksumSHA1   ChecksumAlgorithm = "SHA1"
	ChecksumSHA256 ChecksumAlgorithm = "SHA256"
)

// storedChecksums are the algorithms whose checksums the server stores.
var storedChecksums = map[ChecksumAlgorithm]minio.ChecksumType{
	ChecksumCRC32: minio.ChecksumCRC32, ChecksumCRC32C: minio.ChecksumCRC32C,
	ChecksumSHA1: minio.ChecksumSHA1, ChecksumSHA256: minio.ChecksumSHA256,
}

// validate returns an error if the algorithm does not exist.
func (a ChecksumAlgorithm) validate() error {
	switch {
	case a == "", a == ChecksumMD5, a == ChecksumNone, storedChecksums[a].IsSet():
		return nil
	}
	return fmt.Errorf("there is no checksum algorithm %q", a)
}

// uploadHeader is the header that announces the checksums of the parts of an upload.
const uploadHeader = "X-Amz-Checksum-Algorithm"

// contentDigests are the digests of the content of one request.
type contentDigests struct {
	// md5 is empty unless it is the checksum.
	md5, sha256 string
	// checksum is the checksum that the server stores, of type kind; empty if there is none.
	kind     minio.ChecksumType
	checksum string
}

// computeDigests returns the digests of the content of one request.
func (s *Store) computeDigests(data []byte) contentDigests {
	sum := sha256.Sum256(data)
	d := contentDigests{sha256: hex.EncodeToString(sum[:]), kind: storedChecksums[s.checksum]}
	switch {
	case d.kind.IsSet():
		d.checksum = d.kind.EncodeToString(data)
	case s.checksum != ChecksumNone:
		m := md5.Sum(data) //nolint:gosec // See the import.
		d.md5 = base64.StdEncoding.EncodeToString(m[:])
	}
	return d
}

// header returns the header with the checksum; nil if there is none.
func (d contentDigests) header() http.Header {
	if d.checksum == "" {
		return nil
	}
	header := http.Header{}
	header.Set(d.kind.Key(), d.checksum)
	return header
}

// newCompletePart returns how the completion of an upload names a part.
func (d contentDigests) newCompletePart(number int, etag string) minio.CompletePart {
	part := minio.CompletePart{PartNumber: number, ETag: etag}
	switch d.kind { //nolint:exhaustive // The others are not in storedChecksums.
	case minio.ChecksumCRC32:
		part.ChecksumCRC32 = d.checksum
	case minio.ChecksumCRC32C:
		part.ChecksumCRC32C = d.checksum
	case minio.ChecksumSHA1:
		part.ChecksumSHA1 = d.checksum
	case minio.ChecksumSHA256:
		part.ChecksumSHA256 = d.checksum
	}
	return part
}

// EncryptionAlgorithm is how a server encrypts what it stores.
type EncryptionAlgorithm string

// The algorithms of encryption. The zero value leaves it to the bucket.
const (
	// EncryptionAES256 uses keys of the server.
	EncryptionAES256 EncryptionAlgorithm = "AES256"
	// EncryptionKMS uses keys of a key management service.
	EncryptionKMS EncryptionAlgorithm = "aws:kms"
)

// Encryption is the encryption that a Put requests from the server.
type Encryption struct {
	Algorithm EncryptionAlgorithm
	// KMSKeyID is the key of EncryptionKMS. Empty means the default key of the server.
	KMSKeyID string
}

// newServerSide returns the encryption for the client; nil if none is requested.
func (e Encryption) newServerSide() (encrypt.ServerSide, error) {
	switch {
	case e.KMSKeyID != "" && e.Algorithm != EncryptionKMS:
		return nil, fmt.Errorf("a KMS key needs the encryption %s", EncryptionKMS)
	case e.Algorithm == "":
		return nil, nil //nolint:nilnil // Nothing is requested.
	case e.Algorithm == EncryptionAES256:
		return encrypt.NewSSE(), nil
	case e.Algorithm == EncryptionKMS:
		return encrypt.NewSSEKMS(e.KMSKeyID, nil)
	}
	return nil, fmt.Errorf("there is no encryption %q", e.Algorithm)
}
