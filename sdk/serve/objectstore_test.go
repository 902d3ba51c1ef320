// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	objectstorev1 "github.com/grapnel-dev/grapnel/sdk/objectstore/v1"
	"github.com/grapnel-dev/grapnel/sdk/proto"
	objectstorepb "github.com/grapnel-dev/grapnel/sdk/proto/grapnel/objectstore/v1"
)

// memoryStore stores objects in memory; tests can replace its methods.
type memoryStore struct {
	init func(config map[string]string) error
	put  func(ctx context.Context, body io.Reader) error
	get  func() (io.ReadCloser, error)

	mu      sync.Mutex
	objects map[string][]byte
}

func (m *memoryStore) Init(_ context.Context, config map[string]string) error {
	if m.init != nil {
		return m.init(config)
	}
	return nil
}

func (m *memoryStore) PutObject(ctx context.Context, bucket, key string, body io.Reader) error {
	if m.put != nil {
		return m.put(ctx, body)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[bucket+"/"+key] = content
	return nil
}

func (m *memoryStore) ObjectExists(_ context.Context, bucket, key string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.objects[bucket+"/"+key]
	return ok, nil
}

func (m *memoryStore) GetObject(_ context.Context, bucket, key string) (io.ReadCloser, error) {
	if m.get != nil {
		return m.get()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.objects[bucket+"/"+key]
	if !ok {
		return nil, fmt.Errorf("reading %s: %w", key, objectstorev1.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

func (*memoryStore) ListCommonPrefixes(_ context.Context, bucket, prefix, delimiter string) ([]string, error) {
	return []string{bucket, prefix, delimiter}, nil
}

func (*memoryStore) ListObjects(_ context.Context, bucket, prefix string) ([]string, error) {
	return []string{bucket, prefix}, nil
}

func (*memoryStore) DeleteObject(_ context.Context, bucket, key string) error {
	return errors.New("cannot delete " + bucket + "/" + key)
}

func (*memoryStore) CreateSignedURL(_ context.Context, bucket, key string, ttl time.Duration) (string, error) {
	return bucket + "/" + key + "?" + ttl.String(), nil
}

// startStore serves a store without initializing it.
func startStore(t *testing.T, store objectstorev1.ObjectStore) objectstorepb.ObjectStoreClient {
	t.Helper()
	conn, _ := connect(t, New().RegisterObjectStoreV1(testName, func() (objectstorev1.ObjectStore, error) { return store, nil }))
	return objectstorepb.NewObjectStoreClient(proto.VeleroConn(conn))
}

// openTestStore serves an initialized store.
func openTestStore(t *testing.T, store objectstorev1.ObjectStore) objectstorepb.ObjectStoreClient {
	t.Helper()
	client := startStore(t, store)
	if _, err := client.Init(t.Context(), &objectstorepb.InitRequest{Plugin: testName}); err != nil {
		t.Fatal(err)
	}
	return client
}

// upload sends an object in the given parts and returns the response.
func upload(ctx context.Context, client objectstorepb.ObjectStoreClient, parts ...string) error {
	stream, err := client.PutObject(ctx)
	if err != nil {
		return err
	}
	for _, part := range parts {
		message := &objectstorepb.PutObjectRequest{Plugin: testName, Bucket: "b", Key: "k", Body: []byte(part)}
		if err := stream.Send(message); err != nil {
			break // CloseAndRecv returns the reason.
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

// download returns the parts of an object and the final error.
func download(ctx context.Context, client objectstorepb.ObjectStoreClient) (parts []string, err error) {
	stream, err := client.GetObject(ctx, &objectstorepb.GetObjectRequest{Plugin: testName, Bucket: "b", Key: "k"})
	for err == nil {
		var part *objectstorepb.Bytes
		if part, err = stream.Recv(); err == nil {
			parts = append(parts, string(part.GetData()))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return parts, err
}

func TestObjectStore_RoundTrip(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 5<<17/16) // 640 KiB.
	for name, parts := range map[string][]string{
		"empty":               {""},
		"small":               {"content"},
		"name first":          {"", "content"},
		"empty parts between": {"a", "", "", "b", ""},
		"large":               {large, large, large, large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := openTestStore(t, &memoryStore{})
			if err := upload(t.Context(), client, parts...); err != nil {
				t.Fatal(err)
			}
			got, err := download(t.Context(), client)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(got, "") != strings.Join(parts, "") {
				t.Errorf("%d bytes of %d were returned, or different content", len(strings.Join(got, "")), len(strings.Join(parts, "")))
			}
			for _, part := range got {
				if len(part) > chunkBytes || len(part) == 0 {
					t.Errorf("a message has %d bytes", len(part))
				}
			}
		})
	}
}

func TestObjectStore_InterruptedPut(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	begun := make(chan struct{})
	client := openTestStore(t, &memoryStore{put: func(ctx context.Context, body io.Reader) error {
		close(begun)
		_, err := io.Copy(io.Discard, body) // An io.EOF would not be an error here.
		if err != nil && ctx.Err() == nil {
			err = errors.New("ctx continues")
		}
		read <- err
		return nil // A store that ignores errors.
	}})
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := client.PutObject(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&objectstorepb.PutObjectRequest{Plugin: testName, Bucket: "b", Key: "k", Body: []byte("half")}); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	if err := <-read; err == nil || !strings.Contains(err.Error(), "the upload was interrupted") {
		t.Errorf("the store read until %v, want an error that says that the upload was interrupted", err)
	}
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.Canceled {
		t.Errorf("the sender got %v", err)
	}
}

func TestUploadBody(t *testing.T) {
	t.Parallel()
	broken := status.Error(codes.Internal, "stream broken")
	for name, tc := range map[string]struct {
		// messages are received, followed by the error.
		messages []string
		end      error
		// limit is the number of bytes that the store reads; negative means all.
		limit            int64
		want, wantFinish string
	}{
		"complete":             {messages: []string{"ab", "c"}, end: io.EOF, limit: -1},
		"read up to its size":  {messages: []string{"ab", ""}, end: io.EOF, limit: 3},
		"not read":             {messages: []string{"ab"}, end: io.EOF, limit: 1, wantFinish: "before it had read the whole object"},
		"first message only":   {messages: []string{"", "ab"}, end: io.EOF, limit: 0, wantFinish: "before it had read the whole object"},
		"broken":               {messages: []string{"ab"}, end: broken, limit: -1, want: "interrupted: stream broken", wantFinish: "interrupted: stream broken"},
		"broken, unseen":       {messages: []string{"a"}, end: broken, limit: 1, wantFinish: "interrupted: stream broken"},
		"cut off":              {messages: []string{"ab"}, end: io.ErrUnexpectedEOF, limit: -1, want: "interrupted", wantFinish: "interrupted"},
		"wrapped end":          {messages: []string{"ab"}, end: fmt.Errorf("connection: %w", io.EOF), limit: -1, want: "interrupted", wantFinish: "interrupted"},
		"only an end":          {end: io.EOF, limit: -1},
		"only an interruption": {end: broken, limit: -1, want: "interrupted", wantFinish: "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			messages := tc.messages
			body := &uploadBody{receive: func() (*objectstorepb.PutObjectRequest, error) {
				if len(messages) == 0 {
					return nil, tc.end
				}
				next := messages[0]
				messages = messages[1:]
				return &objectstorepb.PutObjectRequest{Body: []byte(next)}, nil
			}}
			var err error
			if tc.limit < 0 {
				_, err = io.Copy(io.Discard, body)
			} else {
				_, err = io.CopyN(io.Discard, body, min(tc.limit, int64(len(strings.Join(tc.messages, "")))))
			}
			checkError(t, "reading", err, tc.want)
			checkError(t, "finishing", body.checkFullyRead(), tc.wantFinish)
			if tc.want != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				t.Errorf("the error %v looks like the end of an object", err)
			}
		})
	}
}

// TestObjectStore_PutIncompleteRead is for stores that report success without having read the
// object.
func TestObjectStore_PutIncompleteRead(t *testing.T) {
	t.Parallel()
	client := openTestStore(t, &memoryStore{put: func(_ context.Context, body io.Reader) error {
		_, err := io.CopyN(io.Discard, body, 1)
		return err
	}})
	err := upload(t.Context(), client, "ab", "c")
	checkError(t, "the upload", err, "before it had read the whole object")
	if status.Code(err) != codes.DataLoss {
		t.Errorf("error is %v, which does not say that a part may be visible", err)
	}
}

// TestObjectStore_Errors checks that the status does not mention visibility: the store
// promises that nothing is visible.
func TestObjectStore_Errors(t *testing.T) {
	t.Parallel()
	client := openTestStore(t, &memoryStore{put: func(context.Context, io.Reader) error { return errors.New("disk full") }})
	if err := upload(t.Context(), client, "ab", "c"); status.Code(err) != codes.Unknown {
		t.Errorf("error is %v", err)
	}
}

func checkError(t *testing.T, doing string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
		t.Errorf("error of %s is %v, want %q", doing, err, want)
	}
}

// TestUploadBody_StillReading is for stores whose client still reads when it has a response.
func TestUploadBody_StillReading(t *testing.T) {
	t.Parallel()
	receiving, release := make(chan struct{}), make(chan struct{})
	body := &uploadBody{receive: func() (*objectstorepb.PutObjectRequest, error) {
		close(receiving)
		<-release
		return nil, io.EOF
	}}
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, body)
		done <- err
	}()
	<-receiving
	checkError(t, "finishing", body.checkFullyRead(), "while it was still reading")
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestObjectStore_PutWithoutName(t *testing.T) {
	t.Parallel()
	client := openTestStore(t, &memoryStore{put: func(context.Context, io.Reader) error { return errors.New("called") }})
	if err := upload(t.Context(), client); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error is %v, want InvalidArgument", err)
	}
}

// closing counts how often it was closed.
type closing struct {
	io.Reader
	closed *atomic.Int32
	err    error
}

func (c closing) Close() error {
	c.closed.Add(1)
	return c.err
}

func TestObjectStore_GetErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		object io.Reader
		close  error
		// err is the error of GetObject itself.
		err      error
		want     codes.Code
		wantText string
	}{
		"not there":               {err: fmt.Errorf("bucket b: %w", objectstorev1.ErrNotExist), want: codes.NotFound, wantText: "bucket b"},
		"no access":               {err: errors.New("no access"), want: codes.Unknown, wantText: "no access"},
		"no object":               {want: codes.Unknown, wantText: "no object and no error"},
		"broken half-way":         {object: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(errors.New("disk"))), want: codes.Unknown, wantText: "disk"},
		"cut off":                 {object: io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)), want: codes.Unknown, wantText: "unexpected EOF"},
		"checksum error on close": {object: strings.NewReader("all"), close: errors.New("wrong checksum"), want: codes.Unknown, wantText: "wrong checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var closed atomic.Int32
			client := openTestStore(t, &memoryStore{get: func() (io.ReadCloser, error) {
				if tc.object == nil {
					return nil, tc.err
				}
				return closing{Reader: tc.object, closed: &closed, err: tc.close}, nil
			}})
			_, err := download(t.Context(), client)
			if status.Code(err) != tc.want || !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("error is %v, want %s with %q", err, tc.want, tc.wantText)
			}
			if tc.object != nil && closed.Load() != 1 {
				t.Errorf("the object was closed %d times", closed.Load())
			}
		})
	}
}

func TestObjectStore_OtherCalls(t *testing.T) {
	t.Parallel()
	client := openTestStore(t, &memoryStore{})
	prefixes, err := client.ListCommonPrefixes(t.Context(), &objectstorepb.ListCommonPrefixesRequest{Plugin: testName, Bucket: "b", Prefix: "p/", Delimiter: "/"})
	if got := fmt.Sprint(prefixes.GetPrefixes(), err); got != "[b p/ /] <nil>" {
		t.Errorf("common prefixes are %s", got)
	}
	keys, err := client.ListObjects(t.Context(), &objectstorepb.ListObjectsRequest{Plugin: testName, Bucket: "b", Prefix: "p"})
	if got := fmt.Sprint(keys.GetKeys(), err); got != "[b p] <nil>" {
		t.Errorf("keys are %s", got)
	}
	url, err := client.CreateSignedURL(t.Context(), &objectstorepb.CreateSignedURLRequest{Plugin: testName, Bucket: "b", Key: "k", Ttl: int64(time.Minute)})
	if got := fmt.Sprint(url.GetUrl(), err); got != "b/k?1m0s<nil>" {
		t.Errorf("the URL is %s", got)
	}
	_, err = client.DeleteObject(t.Context(), &objectstorepb.DeleteObjectRequest{Plugin: testName, Bucket: "b", Key: "k"})
	checkError(t, "deleting", err, "cannot delete b/k")
}
