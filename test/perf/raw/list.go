// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/grapnel-dev/grapnel/internal/archive"
	"github.com/grapnel-dev/grapnel/test/perf/memory"
)

const (
	// pageSize is what clients of Kubernetes commonly ask for.
	pageSize = 500
	// headBytes is more than a list has before its items.
	headBytes = 8 << 10
	// copyBytes is how much is handed to gzip at a time.
	copyBytes = 64 << 10
)

// Listing is the result of reading all objects.
type Listing struct {
	// Seconds that it took with the best number of workers.
	Seconds float64 `json:"seconds"`
	// Objects that were read.
	Objects int64 `json:"objects"`
	// Bytes of JSON.
	Bytes int64 `json:"bytes"`
	// Workers is the best number of them.
	Workers int `json:"workers"`
	// Growth of the resident memory, in bytes, over all numbers of workers.
	Growth int64 `json:"growth"`
}

// BestListing reads the collections once with each number of workers and
// returns the fastest reading.
func BestListing(ctx context.Context, c *Client, collections []string, workers []int) (Listing, error) {
	best := Listing{}
	objects, err := c.count(ctx, collections)
	if err != nil {
		return best, err
	}
	own := memory.Process(0)
	before, err := own.Resident()
	if err != nil {
		return best, err
	}
	if err := own.ResetPeak(); err != nil {
		return best, err
	}
	for _, n := range workers {
		start := time.Now()
		read, err := c.list(ctx, collections, n)
		if err != nil {
			return best, err
		}
		seconds := time.Since(start).Seconds()
		if best.Workers == 0 || seconds < best.Seconds {
			best = Listing{Seconds: seconds, Objects: objects, Bytes: read, Workers: n}
		}
	}
	peak, err := own.Peak()
	best.Growth = peak - before
	return best, err
}

// count asks how many objects there are: a page of one has the number of remaining objects.
func (c *Client) count(ctx context.Context, collections []string) (int64, error) {
	var total int64
	for _, path := range collections {
		body, err := c.exchange(ctx, http.MethodGet, path+"?limit=1", "", nil)
		if err != nil {
			return 0, err
		}
		var page struct {
			Metadata listMeta          `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return 0, fmt.Errorf("reading a page of %s: %w", path, err)
		}
		total += int64(len(page.Items)) + page.Metadata.Remaining
	}
	return total, nil
}

// list reads every page of the collections and returns how many bytes they had.
// The pages of one collection follow each other; the collections are shared out
// among the workers.
func (c *Client) list(ctx context.Context, collections []string, workers int) (int64, error) {
	jobs := make(chan string, len(collections))
	for _, path := range collections {
		jobs <- path
	}
	close(jobs)
	read := make([]int64, workers)
	group, ctx := errgroup.WithContext(ctx)
	for i := range workers {
		group.Go(func() error {
			p, err := newPipe()
			if err != nil {
				return err
			}
			for path := range jobs {
				if err := p.collection(ctx, c, path); err != nil {
					return fmt.Errorf("listing %s: %w", path, err)
				}
			}
			read[i] = p.read
			return nil
		})
	}
	err := group.Wait()
	var total int64
	for _, n := range read {
		total += n
	}
	return total, err
}

// pipe takes bodies from the network to gzip, with memory of its own.
type pipe struct {
	gzip   *gzip.Writer
	buffer *bufio.Reader
	copy   []byte
	read   int64
}

func newPipe() (*pipe, error) {
	// The level of the archive, so that both compress alike.
	compressed, err := gzip.NewWriterLevel(io.Discard, archive.DefaultLevel)
	if err != nil {
		return nil, fmt.Errorf("starting compression: %w", err)
	}
	return &pipe{gzip: compressed, buffer: bufio.NewReaderSize(nil, headBytes), copy: make([]byte, copyBytes)}, nil
}

// collection reads all pages of one.
func (p *pipe) collection(ctx context.Context, c *Client, path string) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	for {
		token, err := p.page(ctx, c, path+"?"+query.Encode())
		if err != nil || token == "" {
			return err
		}
		query.Set("continue", token)
	}
}

// page pipes one page through gzip and returns the token of the next.
func (p *pipe) page(ctx context.Context, c *Client, path string) (token string, err error) {
	body, err := c.do(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = body.Close() }()
	p.buffer.Reset(body)
	head, err := p.buffer.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading a page: %w", err)
	}
	meta, err := parseHead(head)
	if err != nil {
		return "", err
	}
	p.gzip.Reset(io.Discard)
	n, err := io.CopyBuffer(onlyWriter{p.gzip}, onlyReader{p.buffer}, p.copy)
	p.read += n
	if err != nil {
		return "", fmt.Errorf("reading a page: %w", err)
	}
	return meta.Continue, p.gzip.Close()
}

// onlyWriter and onlyReader hide methods with which a copy would choose a
// buffer of its own.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

// listMeta is what is used of the metadata of a list.
type listMeta struct {
	Continue  string `json:"continue"`
	Remaining int64  `json:"remainingItemCount"`
}

// parseHead reads the metadata of a list, which the API server writes before
// the items, from its beginning. Nothing else of a page is ever decoded.
func parseHead(head []byte) (listMeta, error) {
	before, _, found := bytes.Cut(head, []byte(`,"items":`))
	if !found {
		return listMeta{}, fmt.Errorf("a list has no items in its first %d bytes", len(head))
	}
	var list struct {
		Metadata listMeta `json:"metadata"`
	}
	if err := json.Unmarshal(append(bytes.Clone(before), '}'), &list); err != nil {
		return listMeta{}, fmt.Errorf("reading the beginning of a list: %w", err)
	}
	return list.Metadata, nil
}
