// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
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
	// RequireEncryption denies objects with another encryption: AES256, aws:kms or aws:kms=KEY.
	RequireEncryption string
	// RequireChecksum denies requests with another checksum. None denies those with any.
	RequireChecksum s3.ChecksumAlgorithm
	// TLS makes the server serve HTTPS only.
	TLS bool
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
	// CACert verifies a server with TLS.
	CACert []byte

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
	args = append(args, "-ignore-conditions="+strconv.FormatBool(opts.IgnoreConditions), "-tls="+strconv.FormatBool(opts.TLS),
		"-require-encryption", opts.RequireEncryption, "-require-checksum", string(opts.RequireChecksum))
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
	if err := s.readAddress(bufio.NewReader(stdout), opts.TLS); err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for the URL of the S3 server: %w", err), s.Close())
	}
	return s, nil
}

// readAddress reads the URL that the server prints, and with TLS its certificate.
func (s *Server) readAddress(stdout *bufio.Reader, withTLS bool) error {
	line, err := stdout.ReadString('\n')
	s.URL = strings.TrimSpace(line)
	if err != nil || !withTLS {
		return err
	}
	if line, err = stdout.ReadString('\n'); err != nil {
		return err
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
	s.CACert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return err
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
		CACert:         s.CACert,
		Credentials:    awscredentials.Credentials{AccessKeyID: s.AccessKey, SecretAccessKey: s.SecretKey},
	}
}
