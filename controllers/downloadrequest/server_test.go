// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package downloadrequest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/klauspost/compress/gzip"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
)

const (
	testNamespace = "here"
	testToken     = "a-token"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// world is a Server with a location in a directory.
type world struct {
	t      *testing.T
	dir    string
	client client.Client
	server *Server
	http   *httptest.Server
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.mkdir("main", "backups")
	bsl := &v1alpha1.BackupStorageLocation{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "main"},
		Spec:       v1alpha1.BackupStorageLocationSpec{Filesystem: &v1alpha1.FilesystemLocation{Path: "main"}},
	}
	w.client = newFakeClient(t, append(objects, bsl)...)
	redactor := redact.New()
	logs, err := runlog.New(t.TempDir(), redactor, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	elected := make(chan struct{})
	close(elected)
	w.server = &Server{
		Client: w.client, Opener: &location.Opener{Reader: w.client, Root: w.dir, Redactor: redactor}, Logs: logs, Redactor: redactor,
		Namespace: testNamespace, Elected: elected, Now: func() time.Time { return noon },
	}
	w.http = httptest.NewServer(w.server.newHandler())
	t.Cleanup(w.http.Close)
	return w
}

func newFakeClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := k8sruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.DownloadRequest{}).Build()
}

func (w *world) mkdir(elements ...string) string {
	w.t.Helper()
	dir := filepath.Join(append([]string{w.dir}, elements...)...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// store stores a file of a backup or restore in the location.
func (w *world) store(run, name, file, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.mkdir("main", run, name), file), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// answer is what a client gets.
type answer struct {
	code   int
	header http.Header
	body   string
}

// get downloads with a token.
func (w *world) get(path, token string) answer {
	w.t.Helper()
	var a answer
	w.with(path, token, func(resp *http.Response) {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		a = answer{code: resp.StatusCode, header: resp.Header, body: string(body)}
	})
	return a
}

// with downloads with a token, and closes the connection when use returns.
func (w *world) with(path, token string, use func(*http.Response)) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.http.URL+path, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set(download.TokenHeader, token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	use(resp)
}

func hashOf(token string) string {
	hash := sha256.Sum256([]byte(token))
	return hex.EncodeToString(hash[:])
}

func newRequest(name string, kind v1alpha1.DownloadTargetKind, target string) *v1alpha1.DownloadRequest {
	return &v1alpha1.DownloadRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name},
		Spec:       v1alpha1.DownloadRequestSpec{Target: v1alpha1.DownloadTarget{Kind: kind, Name: target}, TokenHash: hashOf(testToken)},
		Status: v1alpha1.DownloadRequestStatus{
			Phase: v1alpha1.DownloadRequestPhaseReady, ExpirationTimestamp: &metav1.Time{Time: noon.Add(time.Minute)},
		},
	}
}

// newImportedBackup returns a Backup whose files exist in the location, whoever made them.
func newImportedBackup(name string) *v1alpha1.Backup {
	return &v1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1alpha1.BackupSpec{ImportedFrom: &v1alpha1.ImportSource{StorageLocation: "main", BackupUID: "theirs"}},
	}
}

func newRunningBackup(name string) *v1alpha1.Backup {
	return &v1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: name, UID: types.UID("uid-" + name)}}
}

func compress(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestServer_Refusals: only the token of a DownloadRequest that has not expired opens it, and the answers do
// not tell which requests exist.
func TestServer_Refusals(t *testing.T) {
	expired := newRequest("expired", v1alpha1.DownloadBackupLog, "b")
	expired.Status.ExpirationTimestamp.Time = noon
	fresh := newRequest("new", v1alpha1.DownloadBackupLog, "b")
	fresh.Status = v1alpha1.DownloadRequestStatus{}
	other := newRequest("other", v1alpha1.DownloadBackupLog, "b")
	other.Spec.TokenHash = hashOf("another-token")
	elsewhere := newRequest("elsewhere", v1alpha1.DownloadBackupLog, "b")
	elsewhere.Namespace = "elsewhere"
	w := newWorld(t, newImportedBackup("b"), expired, fresh, other, elsewhere, newRequest("good", v1alpha1.DownloadBackupLog, "b"))
	w.store("backups", "b", "b-logs.gz", compress(t, "the log"))
	for _, request := range []string{"good", "new"} { // the cache may not have the status yet
		if a := w.get("/v1/downloads/"+request, testToken); a.code != http.StatusOK || a.body != "the log" {
			t.Fatalf("%s, with the token: %d %q", request, a.code, a.body)
		}
	}
	const want = "no DownloadRequest has this name and token; it may have expired: create another one\n"
	for name, tc := range map[string]struct{ request, token string }{
		"no token":               {"good", ""},
		"a wrong token":          {"good", "wrong"},
		"the hash as token":      {"good", hashOf(testToken)},
		"a foreign token":        {"other", testToken},
		"an expired request":     {"expired", testToken},
		"a new one, wrong token": {"new", "wrong"},
		"an unknown request":     {"missing", testToken},
		"another namespace":      {"elsewhere", testToken},
		"a name with characters": {"%2e%2e%2fgood", testToken},
	} {
		t.Run(name, func(t *testing.T) {
			if a := w.get("/v1/downloads/"+tc.request, tc.token); a.code != http.StatusForbidden || a.body != want {
				t.Errorf("%d %q, want 403 %q", a.code, a.body, want)
			}
		})
	}
}

// TestServer_EachTarget downloads each file that can be downloaded, as a client sees it.
func TestServer_EachTarget(t *testing.T) {
	restore := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "r", UID: "uid-r"}}
	restore.Status.StorageLocation = "main"
	restore.Status.Files = &v1alpha1.RestoreFiles{Log: "k", PostLog: "k", Results: "k", ResourceList: "k"}
	for kind, tc := range map[v1alpha1.DownloadTargetKind]struct{ run, name, file, contentType string }{
		v1alpha1.DownloadBackupLog:           {"backups", "b", "b-logs.gz", contentText},
		v1alpha1.DownloadBackupPostLog:       {"backups", "b", "b-post-logs.gz", contentText},
		v1alpha1.DownloadBackupResults:       {"backups", "b", "b-results.gz", contentJSON},
		v1alpha1.DownloadBackupResourceList:  {"backups", "b", "b-resource-list.json.gz", contentJSON},
		v1alpha1.DownloadBackupContents:      {"backups", "b", "b.tar.gz", contentArchive},
		v1alpha1.DownloadRestoreLog:          {"restores", "r", "restore-r-logs.gz", contentText},
		v1alpha1.DownloadRestorePostLog:      {"restores", "r", "restore-r-post-logs.gz", contentText},
		v1alpha1.DownloadRestoreResults:      {"restores", "r", "restore-r-results.gz", contentJSON},
		v1alpha1.DownloadRestoreResourceList: {"restores", "r", "restore-r-resource-list.json.gz", contentJSON},
	} {
		t.Run(string(kind), func(t *testing.T) {
			w := newWorld(t, newImportedBackup("b"), restore.DeepCopy(), newRequest("d", kind, tc.name))
			w.store(tc.run, tc.name, tc.file, compress(t, "content of "+tc.file))
			a := w.get("/v1/downloads/d", testToken)
			want := "content of " + tc.file
			if tc.contentType == contentArchive {
				want = compress(t, want) // it stays a compressed file
			}
			if a.code != http.StatusOK || a.body != want || a.header.Get("Content-Type") != tc.contentType {
				t.Errorf("%d %q (%s), want %q (%s)", a.code, a.body, a.header.Get("Content-Type"), want, tc.contentType)
			}
			if a.header.Get("Cache-Control") != "no-store" {
				t.Error("a proxy may keep the file")
			}
		})
	}
}

// TestServer_Missing: what cannot be downloaded has an answer that says why.
func TestServer_Missing(t *testing.T) {
	lost := newImportedBackup("lost")
	lost.Spec.ImportedFrom.StorageLocation = "gone"
	odd := newImportedBackup("odd")
	odd.Spec.ImportedFrom.StorageLocation = "odd"
	early := &v1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "early"}}
	for name, tc := range map[string]struct {
		kind   v1alpha1.DownloadTargetKind
		target string
		code   int
		want   string
	}{
		"the Backup was deleted":       {v1alpha1.DownloadBackupLog, "deleted", http.StatusNotFound, "Backup deleted does not exist"},
		"the file was never stored":    {v1alpha1.DownloadBackupPostLog, "b", http.StatusNotFound, "Backup b, which is New, has no such file"},
		"the Backup stored nothing":    {v1alpha1.DownloadBackupLog, "new", http.StatusNotFound, "Backup new, which is New, has no such file"},
		"the Restore stored nothing":   {v1alpha1.DownloadRestoreResults, "early", http.StatusNotFound, "Restore early, which is New, has no such file"},
		"the location does not exist":  {v1alpha1.DownloadBackupLog, "lost", http.StatusBadGateway, `backupstoragelocations.grapnel.dev "gone" not found`},
		"the location has no provider": {v1alpha1.DownloadBackupLog, "odd", http.StatusBadGateway, "the location has no provider"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newImportedBackup("b"), newRunningBackup("new"), odd, lost, early, newRequest("d", tc.kind, tc.target),
				&v1alpha1.BackupStorageLocation{ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "odd"}})
			w.store("backups", "b", "b-logs.gz", "there")
			if a := w.get("/v1/downloads/d", testToken); a.code != tc.code || !strings.Contains(a.body, tc.want) || strings.Contains(a.body, w.dir) {
				t.Errorf("%d %q, want %d %q without the directory", a.code, a.body, tc.code, tc.want)
			}
		})
	}
}

// TestServer_ForeignBackup: a Backup whose name is taken in the location does not show the files of the
// backup that has it.
func TestServer_ForeignBackup(t *testing.T) {
	mine := newRunningBackup("taken")
	mine.Status.StorageLocation = "main"
	w := newWorld(t, mine, newRequest("d", v1alpha1.DownloadBackupContents, "taken"))
	for _, owner := range []string{"another", string(mine.UID)} {
		err := os.RemoveAll(filepath.Join(w.dir, "main", "backups", "taken"))
		if err == nil {
			_, err = location.WithOpenStore(t.Context(), w.client, w.server.Opener, client.ObjectKey{Namespace: testNamespace, Name: "main"},
				func(s *location.Store) (struct{}, error) {
					return struct{}{}, s.Claim(t.Context(), "taken", storage.Claim{BackupUID: owner, Name: "taken"})
				})
		}
		if err != nil {
			t.Fatal(err)
		}
		w.store("backups", "taken", "taken.tar.gz", "secret")
		if a := w.get("/v1/downloads/d", testToken); (a.code == http.StatusOK) != (owner == string(mine.UID)) {
			t.Errorf("the backup of %s: %d %q", owner, a.code, a.body)
		}
	}
}

func TestServer_Standby(t *testing.T) {
	w := newWorld(t, newImportedBackup("b"), newRequest("d", v1alpha1.DownloadBackupLog, "b"))
	w.store("backups", "b", "b-logs.gz", compress(t, "the log"))
	w.server.Elected = make(chan struct{})
	if a := w.get("/v1/downloads/d", testToken); a.code != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %q, want 503 with Retry-After", a.code, a.body)
	}
}

// TestServer_RunningLog: the log of a run in progress is sent as far as it exists, or, with follow, until the
// run ends, each line when it is logged.
func TestServer_RunningLog(t *testing.T) {
	b := newRunningBackup("b")
	w := newWorld(t, b, newRequest("d", v1alpha1.DownloadBackupLog, "b"))
	log := w.server.Logs.Logger(runlog.Run{UID: string(b.UID), Kind: "Backup", Name: "b"}, runlog.Main)
	log.Info("first")
	if a := w.get("/v1/downloads/d", testToken); strings.Count(a.body, "\n") != 1 || !strings.Contains(a.body, "msg=first") {
		t.Errorf("without follow: %q, want the first line", a.body)
	}
	w.with("/v1/downloads/d?follow=true", testToken, func(resp *http.Response) {
		lines := bufio.NewScanner(resp.Body)
		for _, text := range []string{"first", "second", "third"} {
			if !lines.Scan() || !strings.Contains(lines.Text(), "msg="+text) {
				t.Fatalf("line %q (%v), want %q", lines.Text(), lines.Err(), text)
			}
			switch text {
			case "first":
				log.Info("second") // the client has read everything, and waits
			case "second":
				log.Info("third")
				w.server.Logs.Remove(string(b.UID))
			}
		}
		if lines.Scan() || lines.Err() != nil {
			t.Errorf("after the end of the run: %q, %v", lines.Text(), lines.Err())
		}
	})
}

// sparse stores an archive of zeros that takes no space.
func (w *world) sparse(size int64) {
	w.t.Helper()
	w.store("backups", "b", "b.tar.gz", "")
	if err := os.Truncate(filepath.Join(w.dir, "main", "backups", "b", "b.tar.gz"), size); err != nil {
		w.t.Fatal(err)
	}
}

// TestServer_LargeArchive downloads 5 GiB, while others read the same file: the memory does not depend on the size.
func TestServer_LargeArchive(t *testing.T) {
	const size, most = 5 << 30, 64 << 20
	w := newWorld(t, newImportedBackup("b"), newRequest("d", v1alpha1.DownloadBackupContents, "b"))
	w.sparse(size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var readers sync.WaitGroup
	for _, part := range []int64{size, 1 << 20, 100 << 20} {
		readers.Go(func() {
			w.with("/v1/downloads/d", testToken, func(resp *http.Response) {
				if n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, part)); err != nil || n != part {
					t.Errorf("%d bytes, %v; want %d", n, err, part)
				}
			})
		})
	}
	readers.Wait()
	runtime.ReadMemStats(&after)
	if grown := after.Sys - before.Sys; grown > most {
		t.Errorf("the memory of the process grew by %d MiB, want at most %d", grown>>20, most>>20)
	}
}

// TestServer_ClientsThatLeave: a client that closes its connection frees its place.
func TestServer_ClientsThatLeave(t *testing.T) {
	w := newWorld(t, newImportedBackup("b"), newRequest("d", v1alpha1.DownloadBackupContents, "b"))
	w.sparse(1 << 30)
	var readers sync.WaitGroup
	started, leave := make(chan int, maxDownloads), make(chan struct{})
	for range maxDownloads {
		readers.Go(func() {
			w.with("/v1/downloads/d", testToken, func(resp *http.Response) {
				started <- resp.StatusCode
				<-leave // the rest is not read
			})
		})
	}
	for range maxDownloads {
		if code := <-started; code != http.StatusOK {
			t.Errorf("%d, want 200", code)
		}
	}
	if a := w.get("/v1/downloads/d", testToken); a.code != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" {
		t.Errorf("beside %d others: %d %q, want 429 with Retry-After", maxDownloads, a.code, a.body)
	}
	close(leave)
	readers.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.server.downloads.Acquire(ctx, maxDownloads); err != nil {
		t.Errorf("the places are not free: %v", err)
	}
}

// failingReader fails after its content.
type failingReader struct{ io.Reader }

// Read implements io.Reader.
func (f failingReader) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the store broke")
	}
	return n, err
}

// TestFileSender_BrokenStore: a file that ends early is no complete answer.
func TestFileSender_BrokenStore(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sender := &fileSender{response: w, control: http.NewResponseController(w)}
		content := failingReader{strings.NewReader(strings.Repeat("x", 100_000))}
		(&Server{}).endResponse(w, sender, sender.send(content, contentText, ""), logr.Discard())
	}))
	defer broken.Close()
	w := &world{t: t, http: broken}
	w.with("/", "", func(resp *http.Response) {
		if n, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, %v; want an unexpected end", n, err)
		}
	})
}

// TestListen_MaxConnections opens as many connections as there may be, and one more, which is served
// when another one is closed.
func TestListen_MaxConnections(t *testing.T) {
	server, err := (&Server{Namespace: testNamespace}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	address := server.Listener.Addr().String()
	connect := func(timeout time.Duration) (io.Closer, error) {
		dialer := &net.Dialer{Timeout: timeout}
		return tls.DialWithDialer(dialer, "tcp", address, &tls.Config{InsecureSkipVerify: true})
	}
	// Without TLS handshakes: those of all could take longer than readHeaderTimeout, after which
	// the server closes the first.
	var open []io.Closer
	for range maxConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	if c, err := connect(100 * time.Millisecond); err == nil {
		_ = c.Close()
		t.Error("there is a connection too many")
	}
	for _, c := range open {
		_ = c.Close()
	}
	c, err := connect(time.Minute)
	if err != nil {
		t.Fatalf("after the others were closed: %v", err)
	}
	_ = c.Close()
}
