// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package raw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// fileBytes is the size of the files of a small backup: all are about as small.
const fileBytes = 1 << 10

// RunRequest says what the runs do. A run is: create an object, read the
// collections (all at once, as nothing depends on another), patch the status,
// write the files (one after the other, each made durable before the next).
type RunRequest struct {
	// Collection is the URL path of the objects that are created.
	Collection string `json:"collection"`
	// Object is one of them, without a name. It is deleted at the end.
	Object json.RawMessage `json:"object"`
	// Patches is how often its status is written.
	Patches int `json:"patches"`
	// Lists are the URL paths that are read.
	Lists []string `json:"lists"`
	// Files is how many files are written into Dir.
	Files int    `json:"files"`
	Dir   string `json:"dir"`
	// Count is how many runs there are one after the other.
	Count int `json:"count"`
	// AtOnce is how many there are together.
	AtOnce int `json:"atOnce"`
}

// RunTimes is how long runs took.
type RunTimes struct {
	// Seconds of one run, the median.
	Seconds float64 `json:"seconds"`
	// AtOnceSeconds is the time from the first request to the end of the last
	// of those together.
	AtOnceSeconds float64 `json:"atOnceSeconds"`
	// WriteSeconds of one status patch, the median.
	WriteSeconds float64 `json:"writeSeconds"`
}

// OutOfStep waits before the i-th of runs that follow each other. The API server
// answers a LIST of a kind without writes at the next of etcd's notifications of
// progress, which come every 100 ms. A run that began right after the one before it
// would always begin right after a notification, and what it does up to the next one
// would seem to cost nothing. The waits are spread evenly over that time.
func OutOfStep(ctx context.Context, i int) error {
	const (
		between = 100 * time.Millisecond
		golden  = 0.618033988749895
	)
	_, place := math.Modf(float64(i+1) * golden)
	timer := time.NewTimer(time.Duration(place * float64(between)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Runs does the runs and leaves nothing behind in the API server.
func Runs(ctx context.Context, c *Client, req RunRequest) (RunTimes, error) {
	var times RunTimes
	var one, writes []float64
	for i := range req.Count {
		if err := OutOfStep(ctx, i); err != nil {
			return times, err
		}
		r := newRunner(c, req, "limit-"+strconv.Itoa(i))
		start := time.Now()
		if err := r.run(ctx); err != nil {
			return times, err
		}
		one = append(one, time.Since(start).Seconds())
		writes = append(writes, r.writes...)
		if err := r.remove(ctx); err != nil {
			return times, err
		}
	}
	times.Seconds, times.WriteSeconds = Median(one), Median(writes)
	var err error
	times.AtOnceSeconds, err = together(ctx, c, req)
	return times, err
}

// together does runs at once and returns the seconds they took.
func together(ctx context.Context, c *Client, req RunRequest) (float64, error) {
	runners := make([]*runner, req.AtOnce)
	group, groupCtx := errgroup.WithContext(ctx)
	start := time.Now()
	for i := range runners {
		runners[i] = newRunner(c, req, "limit-at-once-"+strconv.Itoa(i))
		group.Go(func() error { return runners[i].run(groupCtx) })
	}
	err := group.Wait()
	seconds := time.Since(start).Seconds()
	for _, r := range runners {
		err = errors.Join(err, r.remove(ctx))
	}
	return seconds, err
}

// runner does one run.
type runner struct {
	client *Client
	req    RunRequest
	name   string
	// writes are the seconds of each status patch.
	writes []float64
}

func newRunner(c *Client, req RunRequest, name string) *runner {
	return &runner{client: c, req: req, name: name}
}

func (r *runner) run(ctx context.Context) error {
	var object map[string]any
	if err := json.Unmarshal(r.req.Object, &object); err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	object["metadata"] = map[string]any{"name": r.name}
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("writing the object: %w", err)
	}
	if _, err := r.client.exchange(ctx, http.MethodPost, r.req.Collection, "application/json", body); err != nil {
		return err
	}
	if err := r.lists(ctx); err != nil {
		return err
	}
	if err := r.patches(ctx); err != nil {
		return err
	}
	return r.files()
}

func (r *runner) lists(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, path := range r.req.Lists {
		group.Go(func() error {
			_, err := r.client.exchange(ctx, http.MethodGet, path+"?limit="+strconv.Itoa(pageSize), "", nil)
			return err
		})
	}
	return group.Wait()
}

func (r *runner) patches(ctx context.Context) error {
	for i := range r.req.Patches {
		body := fmt.Appendf(nil, `{"status":{"message":"write %d"}}`, i)
		start := time.Now()
		_, err := r.client.exchange(ctx, http.MethodPatch, r.req.Collection+"/"+r.name+"/status",
			"application/merge-patch+json", body)
		if err != nil {
			return err
		}
		r.writes = append(r.writes, time.Since(start).Seconds())
	}
	return nil
}

// files writes files as a store does that must not lose them: a temporary name,
// fsync, rename, fsync of the directory.
func (r *runner) files() error {
	dir := filepath.Join(r.req.Dir, r.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	for i := range r.req.Files {
		if err := durable(dir, "file-"+strconv.Itoa(i)); err != nil {
			return fmt.Errorf("writing a file: %w", err)
		}
	}
	return nil
}

func durable(dir, name string) error {
	temporary := filepath.Join(dir, name+".tmp")
	file, err := os.Create(temporary)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, fileBytes))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		return err
	}
	directory, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (r *runner) remove(ctx context.Context) error {
	_, err := r.client.exchange(ctx, http.MethodDelete, r.req.Collection+"/"+r.name, "", nil)
	return errors.Join(err, os.RemoveAll(filepath.Join(r.req.Dir, r.name)))
}

// Median returns the median of values, 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
