// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// verifier lets requests with a valid signature (AWS Signature Version 4 in
// the Authorization header) through, and answers others as Amazon does.
type verifier struct {
	accessKey string
	secretKey string
	next      http.Handler
}

const algorithm = "AWS4-HMAC-SHA256"

// ServeHTTP implements http.Handler.
func (v *verifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	auth, ok := parseAuthorization(r.Header.Get("Authorization"))
	switch {
	case !ok:
		writeS3Error(w, http.StatusForbidden, "AccessDenied", "Access Denied")
	case auth.accessKey != v.accessKey:
		writeS3Error(w, http.StatusForbidden, "InvalidAccessKeyId",
			"The AWS Access Key Id you provided does not exist in our records.")
	case subtle.ConstantTimeCompare([]byte(auth.signature), []byte(v.computeSignature(r, auth))) != 1:
		writeS3Error(w, http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	default:
		v.next.ServeHTTP(w, r)
	}
}

// authorization holds the parts of the header.
type authorization struct {
	accessKey string
	scope     []string // Date, region, service, "aws4_request".
	headers   []string
	signature string
}

func parseAuthorization(header string) (authorization, bool) {
	rest, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return authorization{}, false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	credential := strings.Split(fields["Credential"], "/")
	if len(credential) != 5 {
		return authorization{}, false
	}
	return authorization{
		accessKey: credential[0],
		scope:     credential[1:],
		headers:   strings.Split(fields["SignedHeaders"], ";"),
		signature: fields["Signature"],
	}, true
}

// computeSignature computes the signature that the request should have.
func (v *verifier) computeSignature(r *http.Request, auth authorization) string {
	toSign := strings.Join([]string{
		algorithm,
		r.Header.Get("X-Amz-Date"),
		strings.Join(auth.scope, "/"),
		sha256Hex(canonicalRequest(r, auth.headers)),
	}, "\n")
	key := []byte("AWS4" + v.secretKey)
	for _, part := range auth.scope {
		key = hmacSHA256(key, part)
	}
	return hex.EncodeToString(hmacSHA256(key, toSign))
}

func canonicalRequest(r *http.Request, signed []string) string {
	var headers strings.Builder
	for _, name := range signed {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = fmt.Sprint(r.ContentLength)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	return strings.Join([]string{
		r.Method,
		r.URL.EscapedPath(),
		canonicalQuery(r.URL.Query()),
		headers.String(),
		strings.Join(signed, ";"),
		r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
}

func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		for _, value := range values {
			pairs = append(pairs, uriEncode(name)+"="+uriEncode(value))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// uriEncode is the URI encoding that the signature prescribes.
func uriEncode(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

func hmacSHA256(key []byte, message string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	return h.Sum(nil)
}

func sha256Hex(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func writeS3Error(w http.ResponseWriter, status int, code, message string) {
	type response struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(response{Code: code, Message: message}) // The client notices a cut answer itself.
}
