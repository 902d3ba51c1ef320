// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package rawclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/grapnel-dev/grapnel/internal/archive"
)

// maxItemBytes is the size of the largest object that is read: an archive accepts no larger one.
// etcd accepts 1.5 MiB; an aggregated API may have larger objects.
const maxItemBytes = archive.DefaultEntryBytes

// maxPartBytes is the size of the largest part of a page besides its items.
const maxPartBytes = 1 << 20

var (
	// errNotList is returned for a body that is JSON but not a list.
	errNotList = errors.New("response is not a list")
	// errTooLarge is the error of an object larger than maxItemBytes.
	errTooLarge = fmt.Errorf("it is larger than %d MiB", maxItemBytes>>20)
)

// pageMeta is the metadata of a page. The API server sends it before the items.
type pageMeta struct {
	ResourceVersion    string `json:"resourceVersion"`
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount"`
}

// pageSink receives what a scanner finds in a page.
type pageSink interface {
	// handlePageMeta is called with the metadata of the page, before or after its items.
	handlePageMeta(pageMeta) error
	// handleObject is called for every item in order. The batch contains its bytes, and
	// the last Item is the object.
	handleObject(*scanner) error
	// handleRefused is called for every item that cannot be read.
	handleRefused(*RefusedError)
}

// RefusedError is the error of an object that cannot be read: it is too large, nested too
// deeply, or not valid JSON.
type RefusedError struct {
	// Item is what is known of the object, which may be nothing. It has no JSON.
	Item Item
	// Reason is why the object is refused.
	Reason error
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("object %q cannot be read: %v", e.Item.Key, e.Reason)
}

// Unwrap returns the reason.
func (e *RefusedError) Unwrap() error { return e.Reason }

// scanner extracts the objects from pages. It is reused from page to page.
type scanner struct {
	in    stream
	batch *Batch
	// dec reads the objects that are completely in window.
	dec    *jsontext.Decoder
	window bytes.Buffer
	// head is the prefix of every object: {"apiVersion":…,"kind":…
	head []byte
	// isFirstItem means that the next item is the first of its page, and hasTypeMeta that
	// the items contain their apiVersion and kind.
	isFirstItem, hasTypeMeta bool
	// key is the "namespace/name" of the last item, with the positions of both.
	key                     []byte
	namespaceLen, nameStart int
	// nameless counts objects without a name.
	nameless int
}

func newScanner() *scanner {
	s := &scanner{}
	s.dec = jsontext.NewDecoder(&s.window)
	return s
}

// prepareForKind prepares the scanner for pages of one kind.
func (s *scanner) prepareForKind(kind ResourceKind) error {
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

// resetBody makes the scanner read a new body.
func (s *scanner) resetBody(body io.Reader) {
	s.in.resetBody(body)
	s.isFirstItem = true
}

// scanPage scans one LIST response.
func (s *scanner) scanPage(body io.Reader, sink pageSink) error {
	s.resetBody(body)
	if _, err := s.in.consumeToken("{"); err != nil {
		return err
	}
	var kind string
	items := false
	err := s.forEachElement('}', func() error {
		name, err := s.readPageValue()
		if err != nil {
			return err
		}
		field := string(name)
		if _, err := s.in.consumeToken(":"); err != nil {
			return err
		}
		switch field {
		case `"items"`:
			items = true
			return s.scanItems(sink)
		case `"metadata"`:
			return s.scanPageMeta(sink)
		case `"kind"`:
			kind, err = s.readPageString()
		default:
			_, _, err = s.in.consumeValue(0)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch next, err := s.in.peekToken(); {
	case err == nil:
		return fmt.Errorf("%w: %q follows it", errNotList, next)
	case !errors.Is(err, io.EOF):
		return err
	}
	if !items || kind == "Status" {
		return fmt.Errorf("%w but of kind %q", errNotList, kind)
	}
	return nil
}

// forEachElement calls one for each element of an object or array whose opening bracket was read,
// and consumes the closing bracket.
func (s *scanner) forEachElement(closing byte, one func() error) error {
	if next, err := s.in.peekToken(); err == nil && next == closing {
		_, err = s.in.consumeToken(string(closing))
		return err
	}
	for behind := "," + string(closing); ; {
		if err := one(); err != nil {
			return err
		}
		if next, err := s.in.consumeToken(behind); err != nil || next == closing {
			return err
		}
	}
}

// readPageValue reads a value of a page that is not an item.
func (s *scanner) readPageValue() ([]byte, error) {
	raw, whole, err := s.in.consumeValue(maxPartBytes)
	if err == nil && !whole {
		err = fmt.Errorf("%w: a part of it is larger than %d bytes", errNotList, maxPartBytes)
	}
	return raw, err
}

func (s *scanner) readPageString() (text string, err error) {
	raw, err := s.readPageValue()
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%w: %w", errNotList, err)
	}
	return text, nil
}

func (s *scanner) scanPageMeta(sink pageSink) error {
	raw, err := s.readPageValue()
	if err != nil {
		return err
	}
	var meta pageMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("%w: %w", errNotList, err)
	}
	return sink.handlePageMeta(meta)
}

func (s *scanner) scanItems(sink pageSink) error {
	switch next, err := s.in.peekToken(); {
	case err != nil:
		return s.in.requireMore()
	case next == 'n':
		_, err := s.readPageValue()
		return err
	case next != '[':
		return fmt.Errorf("%w: its items begin with %q", errNotList, next)
	}
	if _, err := s.in.consumeToken("["); err != nil {
		return err
	}
	return s.forEachElement(']', func() error {
		if err := s.scanItem(); err != nil {
			return s.handleItemError(err, sink)
		}
		return sink.handleObject(s)
	})
}

// handleItemError handles the error of an item. It returns the error if the rest of the page cannot
// be read.
func (s *scanner) handleItemError(err error, sink pageSink) error {
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		sink.handleRefused(refused)
	case errors.Is(err, errMissingName):
		s.nameless++
	default:
		return err
	}
	return nil
}

// scanItem appends the next object to the batch. The error is errMissingName for an object
// without a name, which cannot have a path in an archive, and a RefusedError for an object that
// cannot be read. The scanner is then positioned after the object.
func (s *scanner) scanItem() error {
	raw := s.readItemFast()
	if raw == nil {
		var err error
		if raw, err = s.readItemSlow(); err != nil {
			return err
		}
	}
	// All items of a list come from one serializer: the expensive check of the first item
	// is valid for all others.
	found := scanObjectFields(raw, s.isFirstItem)
	if s.isFirstItem {
		s.isFirstItem, s.hasTypeMeta = false, found.hasTypeMeta
	}
	if found.hasWhitespace {
		compact := jsontext.Value(raw)
		if err := compact.Compact(); err != nil {
			return s.newRefusedError(raw, err)
		}
		raw = compact
		found = scanObjectFields(raw, true)
	}
	return s.appendToBatch(raw, found)
}

// readItemFast consumes the next object if it is valid and completely buffered, which
// is the case for nearly all objects. One pass then finds its end and validates it. Otherwise
// it returns nil.
func (s *scanner) readItemFast() []byte {
	if first, err := s.in.peekToken(); err != nil || first != '{' {
		return nil
	}
	s.window = *bytes.NewBuffer(s.in.bufferedBytes())
	s.dec.Reset(&s.window, syntaxOptions)
	raw, err := s.dec.ReadValue()
	if err != nil || len(raw) > maxItemBytes {
		return nil
	}
	s.in.consumeBytes(len(raw))
	return raw
}

// readItemSlow consumes the next object, valid or not.
func (s *scanner) readItemSlow() ([]byte, error) {
	raw, whole, err := s.in.consumeValue(maxItemBytes)
	switch {
	case err != nil:
		return nil, err
	case raw[0] != '{':
		return nil, fmt.Errorf("%w: an item is not an object", errNotList)
	case !whole:
		return nil, s.newRefusedError(raw, errTooLarge)
	}
	if err := checkSyntax(raw); err != nil {
		return nil, s.newRefusedError(raw, err)
	}
	return raw, nil
}

// syntaxOptions accept duplicate names and invalid UTF-8 as the API server sent them:
// detecting them costs time, and nothing would repair them.
var syntaxOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// checkSyntax returns what is wrong with the JSON of an object. Like the JSON decoders of Go,
// including those of the API server, it accepts at most 10,000 levels.
func checkSyntax(raw []byte) error {
	if jsontext.Value(raw).IsValid(syntaxOptions) {
		return nil
	}
	_, err := jsontext.NewDecoder(bytes.NewReader(raw), syntaxOptions).ReadValue()
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		// The whole message contains the path of the position, which may be arbitrarily deep.
		return fmt.Errorf("%w at byte %d of its JSON", syntax.Err, syntax.ByteOffset)
	}
	return errSyntax
}

// newRefusedError returns the error of an object that may be readable only in part.
func (s *scanner) newRefusedError(raw []byte, reason error) error {
	found := scanObjectFields(raw, true)
	if s.readItemKey(raw, found) != nil {
		return &RefusedError{Reason: reason}
	}
	item := s.newItem(found)
	if labels := found.labels.sliceFrom(raw); jsontext.Value(labels).IsValid() {
		item.RawLabels = bytes.Clone(labels)
	}
	return &RefusedError{Item: item, Reason: reason}
}

// newItem returns the Item of an object, after readItemKey.
func (s *scanner) newItem(found scannedObject) Item {
	item := Item{Key: string(s.key), Deleting: found.deleting}
	item.Namespace, item.Name = item.Key[:s.namespaceLen], item.Key[s.nameStart:]
	return item
}

// appendToBatch appends an object to the batch.
func (s *scanner) appendToBatch(raw []byte, found scannedObject) error {
	if err := s.readItemKey(raw, found); err != nil {
		return &RefusedError{Reason: err}
	}
	item := s.newItem(found)
	if item.Name == "" {
		return errMissingName
	}
	b := s.batch
	b.buf = slices.Grow(b.buf, len(s.head)+len(",")+len(raw))
	place := offsets{start: len(b.buf)}
	if s.hasTypeMeta || found.hasTypeMeta {
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
	return nil
}

// readItemKey stores "namespace/name" in s.key, with the positions of both.
func (s *scanner) readItemKey(raw []byte, found scannedObject) error {
	key, err := appendUnquoted(s.key[:0], found.namespace.sliceFrom(raw))
	if err != nil {
		return fmt.Errorf("reading a namespace: %w", err)
	}
	s.namespaceLen, s.nameStart = len(key), 0
	if len(key) > 0 {
		key = append(key, '/')
		s.nameStart = len(key)
	}
	if s.key, err = appendUnquoted(key, found.name.sliceFrom(raw)); err != nil {
		return fmt.Errorf("reading a name: %w", err)
	}
	return nil
}
