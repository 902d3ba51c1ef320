// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

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

// errMissingName is returned by Get for an object without a name.
var errMissingName = errors.New("object has no name")

// ErrStop is returned by a handler to end a List without an error.
var ErrStop = errors.New("stop listing")

// minPageSize is the smallest page size after truncated pages.
const minPageSize = 10

// ResourceKind is the resource and kind to list.
type ResourceKind struct {
	Resource schema.GroupVersionResource
	// Kind of the objects, for example "Deployment".
	Kind string
}

// ListRequest is one LIST.
type ListRequest struct {
	ResourceKind
	// Namespace to list, empty for all.
	Namespace string
	// LabelSelector in the syntax of the API, empty for all.
	LabelSelector string
	// ResourceVersion, if set, requests the objects at exactly that version. If the API server
	// cannot provide it (any longer), the newest state is listed instead; see Summary.Exact.
	ResourceVersion string
	// FirstPageSize is the limit of the first page, 0 for the Lister's.
	FirstPageSize int
	// MaxObjectFailures is how often a page is requested that fails because of its objects
	// (IsObjectFailure); 0 for the same limit as for other errors.
	MaxObjectFailures int
	// Slots for the LIST, nil for those of the Lister.
	Slots *Slots
}

// Page is what is known of a page before its items.
type Page struct {
	// First means that it is the first page of the LIST.
	First bool
	// More means that another page follows.
	More bool
	// Remaining is how many objects follow on later pages, -1 if the API server does not report it
	// (it does not with a label selector).
	Remaining int64
}

// Handler receives the results of a LIST, all in one goroutine.
type Handler struct {
	// Page is called at the start of each page; may be nil. ErrStop ends the
	// LIST before the items of the page.
	Page func(Page) error
	// Batch receives the next objects and must Release them. It may block, which
	// slows down the LIST.
	Batch func(*Batch) error
	// Refused receives each object that cannot be read. Like other objects, it may be reported
	// twice. If Refused is nil, such an object fails the LIST.
	Refused func(*RefusedError)
}

// Summary is the result of a LIST.
type Summary struct {
	// Items that were passed to the handler.
	Items int
	// Pages that were read.
	Pages int
	// Bytes of the bodies.
	Bytes int64
	// ResourceVersion of the first page.
	ResourceVersion string
	// Exact means that everything was read at ListRequest.ResourceVersion.
	Exact bool
	// Expired counts continue tokens that had expired. The rest of the list was then read at a
	// later version than its start.
	Expired int
	// Nameless counts objects that were omitted because they have no name.
	Nameless int
	// Retries counts repeated requests.
	Retries int
}

// handlerError marks an error of the handler.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// List reads all pages of a LIST. Objects come in list order. An object can come twice if a LIST
// had to be restarted, which the caller must expect. The error is the handler's, unchanged, or,
// after retries, the API server's (apierrors) or the transport's. The Summary is valid in any case.
func (c *Lister) List(ctx context.Context, req ListRequest, handler Handler) (Summary, error) {
	if req.Slots == nil {
		req.Slots = c.slots
	}
	l := &lister{client: c, req: req, handler: handler, pageSize: c.opts.PageSize}
	l.summary.Exact = req.ResourceVersion != ""
	err := l.readAllPages(ctx)
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
	client  *Lister
	req     ListRequest
	handler Handler
	summary Summary

	pageSize      int
	continueToken string // continue token of the page to read
	nextToken     string // continue token in the response

	// deliveredKeys are the keys of the current page's objects that were passed to the
	// handler; a repeated page omits them.
	deliveredKeys []string
	skipKeys      map[string]struct{}
	// refusals are the objects of the current page that cannot be read.
	refusals []*RefusedError
	// expiredTokens counts the tokens that expired since the last page, and restarts how often
	// the LIST restarted because of that: a LIST may take long, but must make progress.
	expiredTokens, restarts int
	// pageAnnounced means that the handler was called for the current page.
	pageAnnounced bool
}

// readAllPages reads pages until there are no more.
func (l *lister) readAllPages(ctx context.Context) error {
	defer l.reportRefused()
	for {
		failures := 0
		for {
			before := len(l.deliveredKeys)
			err := l.readPage(ctx)
			if err == nil {
				break
			}
			if len(l.deliveredKeys) > before {
				failures = 0 // it made progress since the last failure
			}
			failures++
			if err := l.prepareRetry(ctx, err, failures); err != nil {
				return err
			}
		}
		l.summary.Pages++
		l.expiredTokens = 0
		if l.handler.Refused == nil && len(l.refusals) > 0 {
			return l.refusals[0]
		}
		l.reportRefused()
		l.deliveredKeys, l.skipKeys, l.pageAnnounced = l.deliveredKeys[:0], nil, false
		if l.continueToken = l.nextToken; l.continueToken == "" {
			return nil
		}
	}
}

// prepareRetry decides how to continue after a failed page, and returns err if that is
// impossible.
func (l *lister) prepareRetry(ctx context.Context, err error, failures int) error {
	if ctx.Err() != nil || errors.Is(err, ErrStop) {
		return err
	}
	l.summary.Retries++
	if l.adaptRequest(err) {
		return nil
	}
	delay, again := listRetryDelay(err, failures)
	if !again || l.req.MaxObjectFailures > 0 && failures >= l.req.MaxObjectFailures && IsObjectFailure(err) {
		return err
	}
	if status := apierrors.APIStatus(nil); !errors.As(err, &status) {
		// The body was truncated: the page may take longer than the server
		// allows.
		l.pageSize = max(l.pageSize/2, minPageSize)
	}
	if sleepErr := l.client.opts.Sleep(ctx, delay); sleepErr != nil {
		return sleepErr
	}
	l.skipKeys = make(map[string]struct{}, len(l.deliveredKeys))
	for _, key := range l.deliveredKeys {
		l.skipKeys[key] = struct{}{}
	}
	return nil
}

// adaptRequest handles the two errors that require a different request instead of a
// repetition: an unavailable version, and an expired continue token.
func (l *lister) adaptRequest(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	if l.continueToken == "" {
		exact := l.summary.Exact
		refused := code == http.StatusGone || code == http.StatusGatewayTimeout || code == http.StatusBadRequest
		if exact && refused {
			l.summary.Exact = false
			return true
		}
		return false
	}
	if code != http.StatusGone || l.expiredTokens >= maxAttempts || l.restarts >= maxAttempts {
		return false
	}
	// The API server offers a token that continues at the same object in the
	// newest state. Without such a token the LIST restarts.
	l.expiredTokens++
	l.summary.Expired++
	l.summary.Exact = false
	if l.continueToken = status.Status().Continue; l.continueToken == "" {
		l.restarts++
	}
	return true
}

// pageURL returns the URL of the current page.
func (l *lister) pageURL() *url.URL {
	query := url.Values{}
	size := l.pageSize
	if l.continueToken != "" {
		query.Set("continue", l.continueToken)
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

// readPage reads one page.
func (l *lister) readPage(ctx context.Context) error {
	c := l.client
	leave, err := acquireSlot(ctx, l.req.Slots.inFlight)
	if err != nil {
		return err
	}
	defer leave()
	body, err := c.sendGetRequest(ctx, l.pageURL(), l.req.Resource.GroupResource())
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	stopReading, err := acquireSlot(ctx, l.req.Slots.readers)
	if err != nil {
		return err
	}
	defer stopReading()

	s := c.scanners.Get().(*scanner) //nolint:forcetypeassert // the pool contains nothing else
	defer c.scanners.Put(s)
	if err := s.prepareForKind(l.req.ResourceKind); err != nil {
		return err
	}
	s.batch = newPooledBatch(c.batches)
	l.nextToken, l.refusals = "", nil
	err = s.scanPage(body, l)
	if err == nil {
		err = l.flushBatch(s)
	}
	// Objects that remain after a failure come again with the repeated page.
	s.batch.Release()
	s.batch = nil
	l.summary.Bytes += s.in.total
	l.summary.Nameless += s.nameless
	return err
}

// reportRefused passes the objects of the page that cannot be read to the handler.
func (l *lister) reportRefused() {
	if l.handler.Refused == nil {
		return
	}
	for _, refused := range l.refusals {
		l.handler.Refused(refused)
	}
	l.refusals = nil
}

// handleRefused records an object of the page that cannot be read.
func (l *lister) handleRefused(refused *RefusedError) { l.refusals = append(l.refusals, refused) }

// handlePageMeta handles the metadata of the page.
func (l *lister) handlePageMeta(meta pageMeta) error {
	l.nextToken = meta.Continue
	if l.summary.ResourceVersion == "" {
		l.summary.ResourceVersion = meta.ResourceVersion
	}
	if l.summary.Exact && l.continueToken == "" && meta.ResourceVersion != l.req.ResourceVersion {
		l.summary.Exact = false // the server does not support exact reads
	}
	if l.handler.Page == nil || l.pageAnnounced {
		return nil
	}
	l.pageAnnounced = true
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

// handleObject handles the next object of the page.
func (l *lister) handleObject(s *scanner) error {
	if l.skipKeys != nil {
		if _, twice := l.skipKeys[s.batch.lastItem().Key]; twice {
			s.batch.dropLastItem()
			return nil
		}
	}
	if len(s.batch.buf) < batchBytes {
		return nil
	}
	if err := l.flushBatch(s); err != nil {
		return err
	}
	s.batch = newPooledBatch(l.client.batches)
	return nil
}

// flushBatch passes the batch to the handler.
func (l *lister) flushBatch(s *scanner) error {
	batch := s.batch
	if len(batch.Items) == 0 {
		return nil
	}
	batch.sealItems()
	for i := range batch.Items {
		l.deliveredKeys = append(l.deliveredKeys, batch.Items[i].Key)
	}
	l.summary.Items += len(batch.Items)
	s.batch = nil
	if err := l.handler.Batch(batch); err != nil {
		return &handlerError{err}
	}
	return nil
}
