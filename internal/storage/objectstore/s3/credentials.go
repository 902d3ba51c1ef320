// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Credentials are a key pair, and a session token if they are temporary. They print as
// "[redacted]".
type Credentials struct {
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string
}

// String implements fmt.Stringer without revealing the credentials.
func (Credentials) String() string { return "[redacted]" }

// GoString implements fmt.GoStringer without revealing the credentials.
func (Credentials) GoString() string { return "s3.Credentials{[redacted]}" }

// ParseCredentials parses a credentials file of the AWS tools, which is also the content of
// the Secret of a Velero location: sections in brackets with lines "aws_access_key_id =
// ...". An empty profile means "default". Errors name lines and profiles, never values.
func ParseCredentials(file []byte, profile string) (Credentials, error) {
	if profile == "" {
		profile = "default"
	}
	var c Credentials
	section, found := "", false
	lines := bufio.NewScanner(bytes.NewReader(file))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			section = strings.TrimSpace(strings.TrimPrefix(strings.Trim(line, "[]"), "profile "))
			found = found || section == profile
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return Credentials{}, fmt.Errorf("reading S3 credentials: line %d is neither a section nor a setting", n)
		}
		if section == profile {
			c.setField(strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value))
		}
	}
	if lines.Err() != nil {
		return Credentials{}, errors.New("reading S3 credentials: a line is too long")
	}
	if !found {
		return Credentials{}, fmt.Errorf("reading S3 credentials: there is no profile %q", profile)
	}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return Credentials{}, fmt.Errorf("reading S3 credentials: profile %q lacks aws_access_key_id or aws_secret_access_key", profile)
	}
	return c, nil
}

func (c *Credentials) setField(name, value string) {
	switch name {
	case "aws_access_key_id":
		c.AccessKeyID = value
	case "aws_secret_access_key":
		c.SecretAccessKey = value
	case "aws_session_token":
		c.SessionToken = value
	}
}
