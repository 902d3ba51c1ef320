// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package downloadrequest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	certutil "k8s.io/client-go/util/cert"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/runlog"
	"github.com/grapnel-dev/grapnel/internal/storage"
	"github.com/grapnel-dev/grapnel/internal/storage/location"
	"github.com/grapnel-dev/grapnel/internal/storage/objectstore"
)

const (
	pathPrefix = "/v1/downloads/"
	// maxDownloads is how many files are sent at a time. The memory of each is that of a few buffers.
	maxDownloads = 16
	// maxConnections bounds the memory of idle clients: any pod may connect. One that sends no request is
	// disconnected after readHeaderTimeout.
	maxConnections    = 256
	readHeaderTimeout = 10 * time.Second
	// certificateAge is longer than any process lives.
	certificateAge = 10 * 365 * 24 * time.Hour
	// shutdownTimeout is how long downloads may continue when the operator stops.
	shutdownTimeout = 5 * time.Second
	// writeTimeout is how long a client may take for the next part of a file, at least 32 KiB.
	writeTimeout = time.Minute
)

// Server sends the files of DownloadRequests to clients that have the token. GET /v1/downloads/NAME returns
// the file; with ?follow=true, a log of a run in progress does not end before the run. An error is one
// line of text. It is safe for concurrent use.
type Server struct {
	// Client reads Grapnel's objects; it may be a cache.
	Client client.Reader
	Opener *location.Opener
	// Logs are the logs of runs in progress.
	Logs     *runlog.Store
	Redactor *redact.Redactor
	// Namespace is the namespace of the DownloadRequests.
	Namespace string
	// Elected is closed once this operator is the leader. Another operator has no logs of runs and no
	// plugins, and answers 503, so that clients retry.
	Elected <-chan struct{}
	// URL is the base URL at which clients reach the Server directly; see --download-url. If it is empty,
	// they use the Service.
	URL string
	Now func() time.Time

	certificate func() (servingCertificate, error)
	downloads   *semaphore.Weighted
}

// Listen returns the HTTPS server, which listens at an address.
func (s *Server) Listen(address string) (*manager.Server, error) {
	host := fmt.Sprintf("%s.%s.svc", download.ServiceName, s.Namespace)
	if s.URL != "" {
		parsed, err := url.Parse(s.URL)
		if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" {
			return nil, fmt.Errorf("--download-url: %q is not an https URL, for example https://backups.example.com:8444", s.URL)
		}
		host = parsed.Hostname()
	}
	s.certificate = sync.OnceValues(func() (servingCertificate, error) { return generateCertificate(host) })
	listener, err := net.Listen("tcp", address) //nolint:noctx // nothing is resolved
	if err != nil {
		return nil, fmt.Errorf("listening at --download-bind-address: %w", err)
	}
	encrypted := tls.NewListener(netutil.LimitListener(listener, maxConnections), &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := s.certificate()
			return &certificate.pair, err
		},
	})
	timeout := shutdownTimeout
	return &manager.Server{
		Name: "downloads", Listener: encrypted, ShutdownTimeout: &timeout,
		Server: &http.Server{Handler: s.newHandler(), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10},
	}, nil
}

// newHandler returns the handler of all requests.
func (s *Server) newHandler() http.Handler {
	s.downloads = semaphore.NewWeighted(maxDownloads)
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathPrefix+"{name}", s.serveDownload)
	return mux
}

// servingCertificate is a self-signed certificate, and the same as PEM.
type servingCertificate struct {
	pair tls.Certificate
	pem  []byte
}

// generateCertificate generates a certificate. That takes a good part of a second, so it is not done before
// the first request. The API server, as a proxy, never verifies it.
func generateCertificate(host string) (servingCertificate, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: host, MaxAge: certificateAge})
	if err != nil {
		return servingCertificate{}, fmt.Errorf("generating the certificate for downloads: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return servingCertificate{}, fmt.Errorf("reading the certificate for downloads: %w", err)
	}
	return servingCertificate{pair: pair, pem: certificate}, nil
}

// httpError is an error with the status code of the answer.
type httpError struct {
	code    int
	message string
}

// Error implements error.
func (e *httpError) Error() string { return e.message }

// serveDownload answers one request.
func (s *Server) serveDownload(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	sender := &fileSender{response: w, control: http.NewResponseController(w)}
	err := s.sendRequestedFile(r, sender)
	s.endResponse(w, sender, err, ctrl.Log.WithName("download").WithValues("downloadrequest", r.PathValue("name")))
}

// endResponse answers with an error, if there is one. It aborts an answer that has begun, so that the client does
// not take it for the whole file.
func (s *Server) endResponse(w http.ResponseWriter, sender *fileSender, err error, log logr.Logger) {
	if err == nil {
		return
	}
	if sender.started {
		log.Info("A download was interrupted", "reason", err.Error())
		panic(http.ErrAbortHandler)
	}
	answer, ok := errors.AsType[*httpError](err)
	if !ok {
		log.Info("A download failed", "reason", err.Error())
		answer = &httpError{http.StatusBadGateway, "the file cannot be read: " + err.Error()}
	}
	if answer.code == http.StatusServiceUnavailable || answer.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	http.Error(w, s.Redactor.String(answer.message), answer.code)
}

// sendRequestedFile checks a request and sends its file.
func (s *Server) sendRequestedFile(r *http.Request, sender *fileSender) error {
	select {
	case <-s.Elected:
	default:
		return &httpError{http.StatusServiceUnavailable, "this operator is not the leader; try again"}
	}
	spec, err := s.authorize(r)
	if err != nil {
		return err
	}
	if !s.downloads.TryAcquire(1) {
		return &httpError{http.StatusTooManyRequests, fmt.Sprintf("%d downloads are in progress; try again later", maxDownloads)}
	}
	defer s.downloads.Release(1)
	file := findTarget(spec.Kind)
	parent := file.newParent()
	if err := s.Client.Get(r.Context(), client.ObjectKey{Namespace: s.Namespace, Name: spec.Name}, parent); err != nil {
		if apierrors.IsNotFound(err) {
			return &httpError{http.StatusNotFound, fmt.Sprintf("%s %s does not exist", file.parentKind(), spec.Name)}
		}
		return fmt.Errorf("reading %s %s: %w", file.parentKind(), spec.Name, err)
	}
	if found, err := s.sendRunLog(r, file, parent, sender); found || err != nil {
		return err
	}
	return s.sendStoredFile(r.Context(), file, parent, sender)
}

// authorize returns the target of the DownloadRequest whose token the client has. The answer does not tell
// whether there is a DownloadRequest of that name.
func (s *Server) authorize(r *http.Request) (v1alpha1.DownloadTarget, error) {
	refused := &httpError{http.StatusForbidden, "no DownloadRequest has this name and token; it may have expired: create another one"}
	var d v1alpha1.DownloadRequest
	err := s.Client.Get(r.Context(), client.ObjectKey{Namespace: s.Namespace, Name: r.PathValue("name")}, &d)
	if err != nil && !apierrors.IsNotFound(err) {
		return v1alpha1.DownloadTarget{}, fmt.Errorf("reading DownloadRequest %s: %w", r.PathValue("name"), err)
	}
	hash := sha256.Sum256([]byte(r.Header.Get(download.TokenHeader)))
	sameToken := subtle.ConstantTimeCompare([]byte(hex.EncodeToString(hash[:])), []byte(d.Spec.TokenHash)) == 1
	// The cache may not have the status yet that the client has seen. A request without a status is new.
	expired := d.Status.ExpirationTimestamp != nil && !s.Now().Before(d.Status.ExpirationTimestamp.Time)
	if !sameToken || expired {
		return v1alpha1.DownloadTarget{}, refused
	}
	return d.Spec.Target, nil
}

// sendRunLog sends a log that this operator still has: that of a run in progress, or of one whose log is not
// stored yet. It returns false if there is none.
func (s *Server) sendRunLog(r *http.Request, file target, parent lifecycle.Object, sender *fileSender) (found bool, err error) {
	if file.log == "" {
		return false, nil
	}
	uid := string(parent.GetUID())
	var log io.ReadCloser
	if r.URL.Query().Get("follow") == "true" && !lifecycle.IsFinalized(parent) {
		sender.flushEach = true
		log, err = s.Logs.Follow(r.Context(), uid, file.log)
	} else {
		log, err = s.Logs.OpenReader(uid, file.log)
	}
	if log == nil || err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	return true, sender.send(log, file.contentType, "")
}

// sendStoredFile sends a file from the location.
func (s *Server) sendStoredFile(ctx context.Context, file target, parent lifecycle.Object, sender *fileSender) error {
	missing := &httpError{http.StatusNotFound, fmt.Sprintf("%s %s, which is %s, has no such file; it may be stored later, or the run ended before there was one",
		file.parentKind(), parent.GetName(), cmp.Or(parent.GetPhase(), v1alpha1.RunPhaseNew))}
	stored := file.findStoredFile(parent)
	if stored.location == "" {
		return missing
	}
	key := client.ObjectKey{Namespace: s.Namespace, Name: stored.location}
	_, err := location.WithOpenStore(ctx, s.Client, s.Opener, key, func(store *location.Store) (_ struct{}, err error) {
		content, err := openStoredFile(ctx, store.Store, file, stored)
		if errors.Is(err, objectstore.ErrNotExist) || (err == nil && content == nil) {
			return struct{}{}, missing
		}
		if err != nil {
			return struct{}{}, err
		}
		defer func() { err = errors.Join(err, content.Close()) }()
		encoding := "gzip"
		if file.contentType == contentArchive {
			encoding = "" // the archive is a compressed file; the others are texts
		}
		return struct{}{}, sender.send(content, file.contentType, encoding)
	})
	return err
}

// openStoredFile opens a file; nil if it belongs to another backup of the same name.
func openStoredFile(ctx context.Context, store *storage.Store, file target, stored storedFile) (io.ReadCloser, error) {
	if file.restoreFile != "" {
		return store.GetRestoreFile(ctx, stored.name, file.restoreFile)
	}
	if stored.ownerUID != "" {
		owned, err := store.IsOwnedBy(ctx, stored.name, stored.ownerUID)
		if _, taken := errors.AsType[*storage.TakenError](err); taken || (err == nil && !owned) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return store.GetFile(ctx, stored.name, file.backupFile)
}

// fileSender sends one file. Every write has a deadline, so that a client that stopped reading does not
// hold the file open.
type fileSender struct {
	response  http.ResponseWriter
	control   *http.ResponseController
	flushEach bool
	// started reports whether a part of the answer was sent.
	started bool
}

// send sends the whole file.
func (f *fileSender) send(content io.Reader, contentType, encoding string) error {
	f.response.Header().Set("Content-Type", contentType)
	if encoding != "" {
		f.response.Header().Set("Content-Encoding", encoding)
	}
	if _, err := io.Copy(f, content); err != nil {
		return fmt.Errorf("sending the file: %w", err)
	}
	return nil
}

// Write implements io.Writer.
func (f *fileSender) Write(p []byte) (int, error) {
	f.started = true
	if err := f.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := f.response.Write(p)
	if err == nil && f.flushEach {
		err = f.control.Flush()
	}
	return n, err
}
