// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

type options struct {
	addr             string
	bucket           string
	accessKey        string
	secretKey        string
	ignoreConditions bool
}

func main() {
	var o options
	flag.StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on; port 0 picks a free one")
	flag.StringVar(&o.bucket, "bucket", "grapnel", "bucket to create")
	flag.StringVar(&o.accessKey, "access-key", "", "access key ID to accept; empty accepts unsigned requests")
	flag.StringVar(&o.secretKey, "secret-key", "", "secret key that belongs to the access key ID")
	flag.BoolVar(&o.ignoreConditions, "ignore-conditions", false, "ignore If-None-Match on writes, as old servers do")
	flag.Parse()
	if err := serveUntilEOF(context.Background(), o, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "s3server:", err)
		os.Exit(1)
	}
}

// serveUntilEOF serves until in ends.
func serveUntilEOF(ctx context.Context, o options, in io.Reader, out io.Writer) error {
	handler, err := newServerHandler(o)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.addr)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serving: %w", err)
	case readErr := <-ended:
		err := errors.Join(readErr, server.Close())
		if served := <-served; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
}

func newServerHandler(o options) (http.Handler, error) {
	backend := s3mem.New()
	if err := backend.CreateBucket(o.bucket); err != nil {
		return nil, fmt.Errorf("creating bucket: %w", err)
	}
	// Clocks are compared when signatures are.
	handler := gofakes3.New(backend, gofakes3.WithTimeSkewLimit(15*time.Minute)).Server()
	if o.ignoreConditions {
		handler = withoutConditions(handler)
	} else {
		handler = withConditionalCompletion(backend, handler)
	}
	if o.accessKey != "" {
		handler = &verifier{accessKey: o.accessKey, secretKey: o.secretKey, next: handler}
	}
	return handler, nil
}
