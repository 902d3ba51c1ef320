// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxItemBytes is the largest object that is read. etcd takes 1.5 MiB; an
// aggregated API may have larger ones.
const maxItemBytes = 64 << 20

var (
	// errNotList is returned for a body that is JSON and no list.
	errNotList = errors.New("response is not a list")
	// errTooLarge is returned for an object beyond maxItemBytes.
	errTooLarge = errors.New("object is too large")
)

// pageMeta is the metadata of a page. The API server sends it before the items.
type pageMeta struct {
	ResourceVersion    string `json:"resourceVersion"`
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount"`
}

// pageSink is what a scanner tells its owner while it goes through a page.
type pageSink interface {
	// meta is called with the metadata of the page, before or after its items.
	meta(pageMeta) error
	// object is called for every item in turn. The batch has its bytes, and
	// its last Item is the object.
	object(*scanner) error
}

// scanner cuts the objects out of pages. It is reused from page to page.
type scanner struct {
	dec   *jsontext.Decoder
	body  meteredReader
	batch *Batch
	// head is what every object starts with: {"apiVersion":…,"kind":…
	head []byte
	// first says that the next item is the first of its page, and typed that
	// the items have their apiVersion and kind.
	first, typed bool
	// key is the "namespace/name" of the last item, with the places of both.
	key                     []byte
	namespaceLen, nameStart int
	// nameless counts objects without a name.
	nameless int
}

func newScanner() *scanner {
	s := &scanner{}
	s.dec = jsontext.NewDecoder(&s.body)
	return s
}

// start prepares the scanner for pages of one kind.
func (s *scanner) start(kind Kind) error {
	head, err := jsontext.AppendQuote(append(s.head[:0], `{"apiVersion":`...), kind.Resource.GroupVersion().String())
	if err == nil {
		head, err = jsontext.AppendQuote(append(head, `,"kind":`...), kind.Kind)
	}
	if err != nil {
		return fmt.Errorf("quoting %v: %w", kind, err)
	}
	s.head, s.nameless = head, 0
	return nil
}

// reset points the decoder at a new body. Duplicate names and invalid UTF-8
// are passed on as the API server sent them: looking for them costs time, and
// there is nobody to repair them.
func (s *scanner) reset(body io.Reader) {
	s.body = meteredReader{r: body}
	s.first = true
	s.dec.Reset(&s.body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// page goes through one LIST response.
func (s *scanner) page(body io.Reader, sink pageSink) error {
	s.reset(body)
	if err := s.token('{'); err != nil {
		return err
	}
	var kind string
	items := false
	for s.dec.PeekKind() != '}' {
		name, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		switch string(name) {
		case `"items"`:
			items = true
			err = s.items(sink)
		case `"metadata"`:
			err = s.pageMeta(sink)
		case `"kind"`:
			kind, err = s.text()
		default:
			err = s.dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	if err := s.end(); err != nil {
		return err
	}
	if !items || kind == "Status" {
		return fmt.Errorf("%w but of kind %q", errNotList, kind)
	}
	return nil
}

// end reads the end of the page and nothing behind it.
func (s *scanner) end() error {
	if err := s.token('}'); err != nil {
		return err
	}
	_, err := s.dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: something follows it", errNotList)
}

// token reads one token of a known kind.
func (s *scanner) token(want jsontext.Kind) error {
	token, err := s.dec.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != want {
		return fmt.Errorf("%w: found %s instead of %s", errNotList, token.Kind(), want)
	}
	return nil
}

func (s *scanner) text() (string, error) {
	token, err := s.dec.ReadToken()
	if err != nil {
		return "", err
	}
	return token.String(), nil
}

func (s *scanner) pageMeta(sink pageSink) error {
	raw, err := s.dec.ReadValue()
	if err != nil {
		return err
	}
	var meta pageMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("%w: %w", errNotList, err)
	}
	return sink.meta(meta)
}

func (s *scanner) items(sink pageSink) error {
	if s.dec.PeekKind() == 'n' {
		return s.dec.SkipValue()
	}
	if err := s.token('['); err != nil {
		return err
	}
	for s.dec.PeekKind() != ']' {
		ok, err := s.item()
		if err != nil {
			return err
		}
		if !ok {
			s.nameless++
			continue
		}
		if err := sink.object(s); err != nil {
			return err
		}
	}
	return s.token(']')
}

// item appends the next object to the batch. It reports false for an object
// without a name, which no path of an archive can hold.
func (s *scanner) item() (bool, error) {
	s.body.sinceItem = 0
	raw, err := s.dec.ReadValue()
	if err != nil {
		return false, err
	}
	if raw[0] != '{' {
		return false, fmt.Errorf("%w: an item is no object", errNotList)
	}
	// All items of a list come from one serializer: what the first one shows
	// at some cost is true of all others.
	found := scanObject(raw, s.first)
	if s.first {
		s.first, s.typed = false, found.typed
	}
	if found.spaced {
		if err := raw.Compact(); err != nil {
			return false, fmt.Errorf("compacting an item: %w", err)
		}
		found = scanObject(raw, true)
	}
	return s.add(raw, found)
}

// add appends an object to the batch.
func (s *scanner) add(raw []byte, found object) (bool, error) {
	if err := s.nameOf(raw, found); err != nil {
		return false, err
	}
	item := Item{Key: string(s.key), Deleting: found.deleting}
	item.Namespace, item.Name = item.Key[:s.namespaceLen], item.Key[s.nameStart:]
	if item.Name == "" {
		return false, nil
	}
	b := s.batch
	b.buf = slices.Grow(b.buf, len(s.head)+len(",")+len(raw))
	place := offsets{start: len(b.buf)}
	if s.typed || found.typed {
		b.buf = append(b.buf, raw...)
	} else {
		b.buf = append(b.buf, s.head...)
		if len(raw) > len("{}") {
			b.buf = append(b.buf, ',')
		}
		b.buf = append(b.buf, raw[1:]...)
	}
	place.end = len(b.buf)
	if found.labels.end > 0 {
		moved := place.end - place.start - len(raw)
		place.labelsStart = place.start + moved + found.labels.start
		place.labelsEnd = place.start + moved + found.labels.end
	}
	b.Items = append(b.Items, item)
	b.offsets = append(b.offsets, place)
	return true, nil
}

// nameOf puts "namespace/name" into s.key and the places of both beside it.
func (s *scanner) nameOf(raw []byte, found object) error {
	key, err := appendText(s.key[:0], found.namespace.of(raw))
	if err != nil {
		return fmt.Errorf("reading a namespace: %w", err)
	}
	s.namespaceLen, s.nameStart = len(key), 0
	if len(key) > 0 {
		key = append(key, '/')
		s.nameStart = len(key)
	}
	if s.key, err = appendText(key, found.name.of(raw)); err != nil {
		return fmt.Errorf("reading a name: %w", err)
	}
	return nil
}

// meteredReader fails when one object has more bytes than maxItemBytes, which
// a decoder would otherwise collect without end.
type meteredReader struct {
	r         io.Reader
	total     int64
	sinceItem int64
}

func (m *meteredReader) Read(p []byte) (int, error) {
	if m.sinceItem > maxItemBytes {
		return 0, errTooLarge
	}
	n, err := m.r.Read(p)
	m.total += int64(n)
	m.sinceItem += int64(n)
	return n, err
}
