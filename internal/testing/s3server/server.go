// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore/s3"
	"github.com/grapnel-dev/grapnel/internal/testing/program"
)

// Options describe the server; every zero field gets a default.
type Options struct {
	// Bucket to create; default "grapnel".
	Bucket string
	// AccessKey and SecretKey that clients must sign with; random by default.
	AccessKey string
	SecretKey string
	// IgnoreConditions makes the server ignore the conditions of conditional writes.
	IgnoreConditions bool
}

// Server is a running server.
type Server struct {
	// URL is the endpoint, as in "http://127.0.0.1:40123".
	URL string
	// Bucket exists and is empty at first.
	Bucket string
	// AccessKey and SecretKey are the only credentials that the server accepts.
	AccessKey string
	SecretKey string

	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer
}

// Start runs a server until the test ends, and fails the test if it cannot.
func Start(tb testing.TB, opts Options) *Server {
	tb.Helper()
	// The context of the test ends before its cleanup functions run.
	s, err := StartWithContext(context.WithoutCancel(tb.Context()), opts)
	if err != nil {
		tb.Fatalf("starting S3 server: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("stopping S3 server: %v", err)
		}
	})
	return s
}

// StartWithContext runs a server until Close is called, ctx ends or this process dies.
func StartWithContext(ctx context.Context, opts Options) (*Server, error) {
	binary, err := buildServer(ctx)
	if err != nil {
		return nil, fmt.Errorf("building the S3 server: %w", err)
	}
	s := &Server{
		Bucket:    valueOrDefault(opts.Bucket, "grapnel"),
		AccessKey: valueOrDefault(opts.AccessKey, rand.Text()),
		SecretKey: valueOrDefault(opts.SecretKey, rand.Text()),
		stderr:    &bytes.Buffer{},
	}
	args := []string{"-bucket", s.Bucket, "-access-key", s.AccessKey, "-secret-key", s.SecretKey}
	if opts.IgnoreConditions {
		args = append(args, "-ignore-conditions")
	}
	s.cmd = exec.CommandContext(ctx, binary, args...)
	s.cmd.Stderr = s.stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the S3 server: %w", err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the URL of the S3 server: %w", err), s.Close())
	}
	s.URL = strings.TrimSpace(line)
	return s, nil
}

// buildServer returns the path of an up-to-date binary.
func buildServer(ctx context.Context) (string, error) {
	root, err := program.ModuleRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, "bin", "s3server")
	return binary, program.Build(ctx, filepath.Join(root, "test", "s3server"), binary)
}

func valueOrDefault(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

// Close stops the server and waits until it has ended.
func (s *Server) Close() error {
	_ = s.stdin.Close() // Closing stdin stops the server; an error means that it has already ended.
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(s.stderr.String()))
	}
	return nil
}

// S3Options returns the options with which package s3 uses the bucket.
func (s *Server) S3Options() s3.Options {
	return s3.Options{
		Bucket:         s.Bucket,
		Region:         "us-east-1",
		Endpoint:       s.URL,
		ForcePathStyle: true,
		Credentials:    awscredentials.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey},
	}
}
