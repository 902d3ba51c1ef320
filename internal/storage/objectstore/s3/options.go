// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/grapnel-dev/grapnel/internal/storage/awscredentials"
)

const (
	// defaultPartSize allows objects of 156 GiB in the 10,000 parts of S3.
	defaultPartSize = 16 << 20
	defaultEndpoint = "https://s3.amazonaws.com"
	defaultRetries  = 10
	maxParts        = 10000
)

// Options describe the bucket and how to access it.
type Options struct {
	// Bucket is the name of an existing bucket; required.
	Bucket string
	// Region of the bucket. If empty, the store requests it from the server, which needs
	// one more permission (s3:GetBucketLocation).
	Region string
	// Endpoint is the URL of the server, as in "https://minio.example:9000". The default
	// scheme is HTTPS. Empty means Amazon.
	Endpoint string
	// ForcePathStyle puts the bucket into the path of the URL instead of its host name.
	// Most servers other than Amazon's require it.
	ForcePathStyle bool
	// CACert holds PEM certificates to trust in addition to those of the system.
	CACert []byte
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// Credentials sign requests. If zero, they come from the environment (AWS_ACCESS_KEY_ID
	// and so on, a web identity, or the instance).
	Credentials awscredentials.Credentials
	// Encryption is what the server is requested to encrypt objects with.
	Encryption Encryption
	// Checksum is the algorithm of the checksums that the server verifies; by default MD5.
	Checksum ChecksumAlgorithm
	// PartSize of multipart uploads in bytes; 0 means 16 MiB. Amazon requires at least 5
	// MiB. One Put needs up to three times as much memory.
	PartSize int
	// MaxRetries is the total number of attempts for one request. 0 means 10, which waits
	// at most about 10 s.
	MaxRetries int
	// StallTimeout is how long a connection may transfer no byte during a request; 0 means
	// 1 minute.
	StallTimeout time.Duration
	// Transport replaces the HTTP transport, for tests and proxies. CACert,
	// InsecureSkipVerify and StallTimeout have no effect then.
	Transport http.RoundTripper
}

// New returns the store. It makes no request: it rejects invalid options, but a missing
// bucket or wrong credentials only show with the first call.
func New(opts Options) (*Store, error) {
	if err := s3utils.CheckValidBucketName(opts.Bucket); err != nil {
		return nil, fmt.Errorf("opening S3 store: bucket %q: %w", opts.Bucket, err)
	}
	endpoint, err := parseEndpoint(opts.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("opening S3 store: %w", err)
	}
	encryption, err := opts.Encryption.newServerSide()
	if err == nil {
		err = opts.Checksum.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("opening S3 store: %w", err)
	}
	secure := endpoint.Scheme == "https"
	transport := opts.Transport
	if transport == nil {
		if transport, err = newTransport(opts, secure); err != nil {
			return nil, fmt.Errorf("opening S3 store: %w", err)
		}
	}
	client, err := minio.NewCore(endpoint.Host, &minio.Options{
		Creds:        newCredentialsProvider(opts.Credentials),
		Secure:       secure,
		Transport:    stallTransport{next: transport},
		Region:       opts.Region,
		BucketLookup: bucketLookup(opts.ForcePathStyle),
		MaxRetries:   valueOrDefault(opts.MaxRetries, defaultRetries),
	})
	if err != nil {
		return nil, fmt.Errorf("opening S3 store: %w", err)
	}
	return &Store{
		client:     client,
		bucket:     opts.Bucket,
		partSize:   valueOrDefault(opts.PartSize, defaultPartSize),
		maxParts:   maxParts,
		transport:  transport,
		encryption: encryption,
		checksum:   opts.Checksum,
	}, nil
}

func valueOrDefault[N int | time.Duration](value, fallback N) N {
	if value > 0 {
		return value
	}
	return fallback
}

func bucketLookup(forcePathStyle bool) minio.BucketLookupType {
	if forcePathStyle {
		return minio.BucketLookupPath
	}
	return minio.BucketLookupAuto
}

// parseEndpoint never repeats the endpoint in an error: it may contain a password.
func parseEndpoint(endpoint string) (*url.URL, error) {
	if endpoint == "" {
		endpoint = defaultEndpoint
	}
	if !strings.Contains(endpoint, "://") {
		endpoint = "https://" + endpoint
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, errors.New("endpoint is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("endpoint must start with http:// or https://")
	case u.Host == "":
		return nil, errors.New("endpoint has no host name")
	case u.User != nil:
		return nil, errors.New("endpoint must not contain credentials")
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("endpoint must be a scheme, a host name and perhaps a port, without a path")
	}
	return u, nil
}

func newTransport(opts Options, secure bool) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	wrapConnections(transport, valueOrDefault(opts.StallTimeout, stallTimeout))
	if !secure {
		return transport, nil
	}
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	transport.TLSClientConfig.InsecureSkipVerify = opts.InsecureSkipVerify
	if len(opts.CACert) == 0 {
		return transport, nil
	}
	pool := transport.TLSClientConfig.RootCAs
	if pool == nil {
		if pool, err = x509.SystemCertPool(); err != nil {
			pool = x509.NewCertPool()
		}
	}
	if !pool.AppendCertsFromPEM(opts.CACert) {
		return nil, errors.New("caCert holds no PEM certificate")
	}
	transport.TLSClientConfig.RootCAs = pool
	return transport, nil
}

// newCredentialsProvider returns the source of credentials for the client.
func newCredentialsProvider(c awscredentials.Credentials) *credentials.Credentials {
	if c != (awscredentials.Credentials{}) {
		return credentials.NewStaticV4(c.AccessKeyID, c.SecretAccessKey, c.SessionToken)
	}
	return credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{},
		&credentials.FileAWSCredentials{},
		&credentials.IAM{},
	})
}
