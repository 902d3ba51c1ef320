// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errNameless is returned by Get for an object without a name.
var errNameless = errors.New("object has no name")

// ErrStop is what a handler returns to end a List without an error.
var ErrStop = errors.New("stop listing")

// minPageSize is how far pages are made smaller after one was cut off.
const minPageSize = 10

// Kind names what is listed.
type Kind struct {
	Resource schema.GroupVersionResource
	// Kind of the objects, for example "Deployment".
	Kind string
}

// Request is one LIST.
type Request struct {
	Kind
	// Namespace to list, empty for all.
	Namespace string
	// LabelSelector in the form of the API, empty for all.
	LabelSelector string
	// ResourceVersion, if set, asks for the objects as they were at exactly
	// that version. If the API server cannot do that (any more), the newest
	// state is listed instead; see Summary.Exact.
	ResourceVersion string
	// FirstPageSize is the limit of the first page, 0 for the Client's.
	FirstPageSize int
	// Places that the LIST takes, nil for those of the Client.
	Places *Places
}

// Page is what is known of a page before its items.
type Page struct {
	// First says that it is the first one of the LIST.
	First bool
	// More says that another page follows.
	More bool
	// Remaining is how many objects follow on later pages, -1 if the API
	// server does not tell (it does not with a label selector).
	Remaining int64
}

// Handler takes what a LIST yields, all in one goroutine.
type Handler struct {
	// Page is called at the start of each page; may be nil. ErrStop ends the
	// LIST before the items of the page.
	Page func(Page) error
	// Batch takes the next objects and must Release them. It may block, which
	// slows the LIST down.
	Batch func(*Batch) error
}

// Summary is what became of a LIST.
type Summary struct {
	// Items that were handed over.
	Items int
	// Pages that were read.
	Pages int
	// Bytes of the bodies.
	Bytes int64
	// ResourceVersion of the first page.
	ResourceVersion string
	// Exact says that everything was read at Request.ResourceVersion.
	Exact bool
	// Expired counts continue tokens that had expired. The rest of the list
	// was read at a later version than its beginning.
	Expired int
	// Nameless counts objects that were left out because they have no name.
	Nameless int
	// Retries counts requests that were repeated.
	Retries int
}

// handlerError marks an error of the handler, which is nobody else's.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// List reads all pages of a LIST. Objects come in list order; an object can
// come twice if a LIST had to be started again, which the caller must expect.
// The error is the handler's as it is, the API server's (apierrors) or the
// transport's, after retries; the Summary is valid in any case.
func (c *Client) List(ctx context.Context, req Request, handler Handler) (Summary, error) {
	if req.Places == nil {
		req.Places = c.places
	}
	l := &lister{client: c, req: req, handler: handler, pageSize: c.opts.PageSize}
	l.summary.Exact = req.ResourceVersion != ""
	err := l.run(ctx)
	var own *handlerError
	switch {
	case errors.Is(err, ErrStop):
		err = nil
	case errors.As(err, &own):
		err = own.err
	case err != nil:
		err = fmt.Errorf("listing %s: %w", req.Resource.GroupResource(), err)
	}
	return l.summary, err
}

// lister is one LIST under way. It is the pageSink of its scanner.
type lister struct {
	client  *Client
	req     Request
	handler Handler
	summary Summary

	pageSize int
	token    string // continue token of the page to read
	next     string // continue token that the page brought

	// emitted are the keys of the current page's objects that were handed
	// over; a repeated page leaves them out.
	emitted []string
	repeat  map[string]struct{}
	// stale counts the tokens that expired since the last page, and restarts how often
	// the LIST began again for that: a LIST may take long, but must not stand still.
	stale, restarts int
	// announced says that the handler knows of the current page.
	announced bool
}

// run reads pages until there are no more.
func (l *lister) run(ctx context.Context) error {
	for {
		failures := 0
		for {
			before := len(l.emitted)
			err := l.page(ctx)
			if err == nil {
				break
			}
			if len(l.emitted) > before {
				failures = 0 // it got further than the time before
			}
			failures++
			if err := l.recover(ctx, err, failures); err != nil {
				return err
			}
		}
		l.summary.Pages++
		l.stale = 0
		l.emitted, l.repeat, l.announced = l.emitted[:0], nil, false
		if l.token = l.next; l.token == "" {
			return nil
		}
	}
}

// recover decides how to go on after a failed page, and returns err if it
// cannot.
func (l *lister) recover(ctx context.Context, err error, failures int) error {
	if ctx.Err() != nil || errors.Is(err, ErrStop) {
		return err
	}
	l.summary.Retries++
	if l.resume(err) {
		return nil
	}
	delay, again := retryDelay(err, failures)
	if !again || failures >= maxAttempts {
		return err
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		// The body was cut off: perhaps the page takes longer than the server
		// gives it.
		l.pageSize = max(l.pageSize/2, minPageSize)
	}
	if sleepErr := l.client.opts.Sleep(ctx, delay); sleepErr != nil {
		return sleepErr
	}
	l.repeat = make(map[string]struct{}, len(l.emitted))
	for _, key := range l.emitted {
		l.repeat[key] = struct{}{}
	}
	return nil
}

// resume handles the two answers that ask for another request instead of the
// same one again: a version that cannot be had, and an expired continue token.
func (l *lister) resume(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	if l.token == "" {
		exact := l.summary.Exact
		refused := code == http.StatusGone || code == http.StatusGatewayTimeout || code == http.StatusBadRequest
		if exact && refused {
			l.summary.Exact = false
			return true
		}
		return false
	}
	if code != http.StatusGone || l.stale >= maxAttempts || l.restarts >= maxAttempts {
		return false
	}
	// The API server offers a token that goes on at the same object in the
	// newest state. Without one the LIST starts again.
	l.stale++
	l.summary.Expired++
	l.summary.Exact = false
	if l.token = status.Status().Continue; l.token == "" {
		l.restarts++
	}
	return true
}

// url returns the request for the current page.
func (l *lister) url() *url.URL {
	query := url.Values{}
	size := l.pageSize
	if l.token != "" {
		query.Set("continue", l.token)
	} else {
		if l.summary.Exact {
			query.Set("resourceVersion", l.req.ResourceVersion)
			query.Set("resourceVersionMatch", "Exact")
		}
		if l.req.FirstPageSize > 0 {
			size = min(size, l.req.FirstPageSize)
		}
	}
	query.Set("limit", strconv.Itoa(size))
	if l.req.LabelSelector != "" {
		query.Set("labelSelector", l.req.LabelSelector)
	}
	target := l.client.requests.URL(l.req.Resource, l.req.Namespace, "")
	target.RawQuery = query.Encode()
	return target
}

// page reads one page.
func (l *lister) page(ctx context.Context) error {
	c := l.client
	leave, err := enter(ctx, l.req.Places.inFlight)
	if err != nil {
		return err
	}
	defer leave()
	body, err := c.do(ctx, l.url(), l.req.Resource.GroupResource())
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	stopReading, err := enter(ctx, l.req.Places.readers)
	if err != nil {
		return err
	}
	defer stopReading()

	s := c.scanners.Get().(*scanner) //nolint:forcetypeassert // the pool makes nothing else
	defer c.scanners.Put(s)
	if err := s.start(l.req.Kind); err != nil {
		return err
	}
	s.batch = newBatch(c.batches)
	l.next = ""
	err = s.page(body, l)
	if err == nil {
		err = l.flush(s)
	}
	// What is left after a failure comes again with the repeated page.
	s.batch.Release()
	s.batch = nil
	l.summary.Bytes += s.body.total
	l.summary.Nameless += s.nameless
	return err
}

// meta takes the metadata of the page.
func (l *lister) meta(meta pageMeta) error {
	l.next = meta.Continue
	if l.summary.ResourceVersion == "" {
		l.summary.ResourceVersion = meta.ResourceVersion
	}
	if l.summary.Exact && l.token == "" && meta.ResourceVersion != l.req.ResourceVersion {
		l.summary.Exact = false // a server that knows no exact reads
	}
	if l.handler.Page == nil || l.announced {
		return nil
	}
	l.announced = true
	page := Page{First: l.summary.Pages == 0, More: meta.Continue != "", Remaining: -1}
	if meta.RemainingItemCount != nil {
		page.Remaining = *meta.RemainingItemCount
	} else if !page.More {
		page.Remaining = 0
	}
	if err := l.handler.Page(page); err != nil {
		return &handlerError{err}
	}
	return nil
}

// object takes the next object of the page.
func (l *lister) object(s *scanner) error {
	if l.repeat != nil {
		if _, twice := l.repeat[s.batch.last().Key]; twice {
			s.batch.drop()
			return nil
		}
	}
	if len(s.batch.buf) < batchBytes {
		return nil
	}
	if err := l.flush(s); err != nil {
		return err
	}
	s.batch = newBatch(l.client.batches)
	return nil
}

// flush hands the batch over.
func (l *lister) flush(s *scanner) error {
	batch := s.batch
	if len(batch.Items) == 0 {
		return nil
	}
	batch.seal()
	for i := range batch.Items {
		l.emitted = append(l.emitted, batch.Items[i].Key)
	}
	l.summary.Items += len(batch.Items)
	s.batch = nil
	if err := l.handler.Batch(batch); err != nil {
		return &handlerError{err}
	}
	return nil
}
