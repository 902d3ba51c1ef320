// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

// veleroStore is an ObjectStore that stores objects in a directory and behaves like
// Velero's plugins: one configuration per process, and the end of a stream is the end of an
// object. The configuration has
//
//	dir     the directory
//	refuse  a reason not to accept it
//	put     "fails", "early" (reports success after the first part) or "hangs"
//	get     "fails" in the middle
type veleroStore struct {
	objectstorepb.UnimplementedObjectStoreServer
	log string

	mu     sync.Mutex
	config map[string]string
}

func newVeleroStore(getenv func(string) string) *veleroStore {
	return &veleroStore{log: getenv("FAULT_CALL_LOG")}
}

// Init stores the configuration and adds it to the call log.
func (s *veleroStore) Init(_ context.Context, in *objectstorepb.InitRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := in.GetConfig()["refuse"]; reason != "" {
		return nil, status.Error(codes.Unknown, reason)
	}
	s.config = in.GetConfig()
	if s.log != "" {
		if err := appendLineToFile(s.log, []byte("init "+in.GetConfig()["dir"])); err != nil {
			return nil, err
		}
	}
	return &emptypb.Empty{}, nil
}

func (s *veleroStore) configValue(name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		return "", status.Error(codes.Unknown, "the store was not initialized")
	}
	return s.config[name], nil
}

func (s *veleroStore) objectPath(bucket, key string) (string, error) {
	dir, err := s.configValue("dir")
	return filepath.Join(dir, bucket, filepath.FromSlash(key)), err
}

// PutObject stores an object when the stream has ended, and nothing if it was interrupted.
func (s *veleroStore) PutObject(stream grpc.ClientStreamingServer[objectstorepb.PutObjectRequest, emptypb.Empty]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	path, err := s.objectPath(first.GetBucket(), first.GetKey())
	if err != nil {
		return err
	}
	fault, err := s.configValue("put")
	switch {
	case err != nil:
		return err
	case fault == "fails":
		return status.Error(codes.Unknown, "the bucket is full")
	case fault == "early":
		return stream.SendAndClose(&emptypb.Empty{})
	case fault == "hangs":
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	if err := receiveObjectBody(stream, first, file); err != nil {
		return errors.Join(err, file.Close(), os.Remove(path+".part"))
	}
	if err := errors.Join(file.Close(), os.Rename(path+".part", path)); err != nil {
		return err
	}
	return stream.SendAndClose(&emptypb.Empty{})
}

func receiveObjectBody(
	stream grpc.ClientStreamingServer[objectstorepb.PutObjectRequest, emptypb.Empty], part *objectstorepb.PutObjectRequest, out io.Writer,
) error {
	for {
		if _, err := out.Write(part.GetBody()); err != nil {
			return err
		}
		var err error
		if part, err = stream.Recv(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// ObjectExists checks whether the file exists.
func (s *veleroStore) ObjectExists(_ context.Context, in *objectstorepb.ObjectExistsRequest) (*objectstorepb.ObjectExistsResponse, error) {
	path, err := s.objectPath(in.GetBucket(), in.GetKey())
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(path)
	return &objectstorepb.ObjectExistsResponse{Exists: err == nil}, nil
}

// GetObject sends the file in small parts, like Velero's framework.
func (s *veleroStore) GetObject(in *objectstorepb.GetObjectRequest, stream grpc.ServerStreamingServer[objectstorepb.Bytes]) error {
	path, err := s.objectPath(in.GetBucket(), in.GetKey())
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return status.Error(codes.Unknown, "no such object")
	}
	defer func() { _ = file.Close() }()
	fault, err := s.configValue("get")
	if err != nil {
		return err
	}
	buffer := make([]byte, 16<<10)
	for {
		n, err := file.Read(buffer)
		if n > 0 {
			if err := stream.Send(&objectstorepb.Bytes{Data: buffer[:n]}); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case fault == "fails":
			return status.Error(codes.Unknown, "the disk broke")
		}
	}
}

// ListObjects lists the files below a prefix.
func (s *veleroStore) ListObjects(_ context.Context, in *objectstorepb.ListObjectsRequest) (*objectstorepb.ListObjectsResponse, error) {
	keys, err := s.listObjectKeys(in.GetBucket(), in.GetPrefix())
	return &objectstorepb.ListObjectsResponse{Keys: keys}, err
}

// ListCommonPrefixes lists the common prefixes of keys up to the delimiter.
func (s *veleroStore) ListCommonPrefixes(
	_ context.Context, in *objectstorepb.ListCommonPrefixesRequest,
) (*objectstorepb.ListCommonPrefixesResponse, error) {
	keys, err := s.listObjectKeys(in.GetBucket(), in.GetPrefix())
	out := &objectstorepb.ListCommonPrefixesResponse{}
	seen := map[string]bool{}
	for _, key := range keys {
		head, _, found := strings.Cut(strings.TrimPrefix(key, in.GetPrefix()), in.GetDelimiter())
		prefix := in.GetPrefix() + head + in.GetDelimiter()
		if found && !seen[prefix] {
			seen[prefix] = true
			out.Prefixes = append(out.Prefixes, prefix)
		}
	}
	return out, err
}

func (s *veleroStore) listObjectKeys(bucket, prefix string) ([]string, error) {
	root, err := s.objectPath(bucket, "")
	if err != nil {
		return nil, err
	}
	var keys []string
	err = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // a missing bucket is empty
		}
		relative, err := filepath.Rel(root, path)
		if key := filepath.ToSlash(relative); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
		return err
	})
	sort.Strings(keys)
	return keys, err
}

// DeleteObject removes the file.
func (s *veleroStore) DeleteObject(_ context.Context, in *objectstorepb.DeleteObjectRequest) (*emptypb.Empty, error) {
	path, err := s.objectPath(in.GetBucket(), in.GetKey())
	if err == nil {
		err = os.Remove(path)
	}
	return &emptypb.Empty{}, err
}

// CreateSignedURL returns a URL that contains its arguments.
func (s *veleroStore) CreateSignedURL(
	_ context.Context, in *objectstorepb.CreateSignedURLRequest,
) (*objectstorepb.CreateSignedURLResponse, error) {
	return &objectstorepb.CreateSignedURLResponse{Url: "https://x/" + in.GetKey() + "?ttl=" + time.Duration(in.GetTtl()).String()}, nil
}
