// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
	"github.com/grapnel-dev/grapnel/internal/text"
)

// sourceError is an error of the reader that the caller of Put passed. It is not an error
// of the store.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return "reading the content: " + e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

// toStoreError converts an error of the client to one of the contract.
func toStoreError(op, key string, err error) error {
	if _, fromSource := errors.AsType[*sourceError](err); fromSource {
		return &objectstore.Error{Op: op, Key: key, Err: err}
	}
	if _, known := errors.AsType[*objectstore.Error](err); known {
		return err
	}
	kind, cause := classifyError(err)
	return &objectstore.Error{Op: op, Key: key, Kind: kind, Err: cause}
}

// classifyError returns the sentinel and a cause that is safe to show.
func classifyError(err error) (kind, cause error) {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case errors.Is(err, objectstore.ErrStalled), errors.Is(err, objectstore.ErrInvalidKey):
		return nil, err
	case errors.Is(err, objectstore.ErrTooLarge):
		return nil, err
	}
	if response, ok := errors.AsType[minio.ErrorResponse](err); ok {
		return sentinelForResponse(response), describeResponse(response)
	}
	// The URL repeats key and bucket, and with some transports more.
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	return objectstore.ErrUnavailable, err
}

func sentinelForResponse(r minio.ErrorResponse) error {
	switch r.Code {
	case minio.NoSuchBucket:
		return objectstore.ErrNoStore
	case "NoSuchKey", "NotFound", "NoSuchUpload":
		return objectstore.ErrNotExist
	case "PreconditionFailed":
		return objectstore.ErrExists
	case "EntityTooLarge":
		return objectstore.ErrTooLarge
	case "XMinioStorageFull", "XMinioStorageBackendFull", "XMinioAdminBucketQuotaExceeded", // MinIO, of which the last is a 400
		"QuotaExceeded",            // Ceph, a 403
		"InsufficientStorageSpace", // Huawei, a 403
		"InsufficientStorage":
		return objectstore.ErrNoSpace
	case "InternalError", "SlowDown", "ServiceUnavailable", "RequestTimeout":
		return objectstore.ErrUnavailable // Amazon also says so within a 200.
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AccessDenied", "RequestTimeTooSkewed":
		return objectstore.ErrAccess
	}
	return sentinelForStatus(r.StatusCode)
}

func sentinelForStatus(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return objectstore.ErrAccess
	case http.StatusNotFound:
		return objectstore.ErrNotExist
	case http.StatusPreconditionFailed:
		return objectstore.ErrExists
	case http.StatusInsufficientStorage:
		return objectstore.ErrNoSpace
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusConflict:
		return objectstore.ErrUnavailable
	}
	if status >= http.StatusInternalServerError {
		return objectstore.ErrUnavailable
	}
	return nil
}

const maxMessageBytes = 300

// describeResponse returns the code and the message of the server, truncated and without
// control characters: a server is not trusted.
func describeResponse(r minio.ErrorResponse) error {
	message := text.Truncate(strings.Map(func(c rune) rune {
		if c < 0x20 || c == 0x7f {
			return ' '
		}
		return c
	}, r.Error()), maxMessageBytes)
	if r.Code == "" {
		return fmt.Errorf("server answered %d: %s", r.StatusCode, message)
	}
	if r.Code == "RequestTimeTooSkewed" {
		message += " (the clock of this machine or of the server is wrong)"
	}
	return fmt.Errorf("server answered %.64s: %s", r.Code, message)
}

// hasErrorCode reports whether the server answered with one of the codes.
func hasErrorCode(err error, codes ...string) bool {
	response, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && slices.Contains(codes, response.Code)
}
