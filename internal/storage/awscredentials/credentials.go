// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awscredentials reads the credentials file of the AWS tools, which is also the content of the
// Secrets of Velero. It never runs a program, reads another file or requests an identity, whatever the
// file says.
package awscredentials

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// DefaultProfile is the profile that is used if none is named.
const DefaultProfile = "default"

// maxFileBytes limits a file. The keys of a profile have less than 2 KiB.
const maxFileBytes = 64 << 10

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
func (Credentials) GoString() string { return "awscredentials.Credentials{[redacted]}" }

// The settings of a profile that matter.
const (
	settingAccessKeyID     = "aws_access_key_id"
	settingSecretAccessKey = "aws_secret_access_key" //nolint:gosec // the name of a setting
	settingSessionToken    = "aws_session_token"
)

// identitySettings get the AWS tools another identity than that of the keys.
var identitySettings = []string{"role_arn", "credential_process", "credential_source", "source_profile", "sso_session", "sso_start_url", "web_identity_token_file"}

// ParseFile returns the credentials of a profile; an empty one means the default. A profile that stands for another
// identity than its keys is an error. Errors name lines, the profile and known settings, and nothing else of the file.
func ParseFile(file []byte, profile string) (Credentials, error) {
	if profile == "" {
		profile = DefaultProfile
	}
	if len(file) > maxFileBytes {
		return Credentials{}, fmt.Errorf("the credentials file has more than %d KiB", maxFileBytes>>10)
	}
	settings, err := parseProfile(bytes.TrimPrefix(file, []byte("\ufeff")), profile)
	switch {
	case err != nil:
		return Credentials{}, err
	case settings == nil:
		return Credentials{}, fmt.Errorf("the credentials file has no profile %q", profile)
	}
	for _, name := range identitySettings {
		if settings[name] != "" {
			return Credentials{}, fmt.Errorf("the profile %q of the credentials file has %s, which is not supported; it needs %s and %s",
				profile, name, settingAccessKeyID, settingSecretAccessKey)
		}
	}
	c := Credentials{AccessKeyID: settings[settingAccessKeyID], SecretAccessKey: settings[settingSecretAccessKey], SessionToken: settings[settingSessionToken]}
	if c.AccessKeyID == "" || c.SecretAccessKey == "" {
		return Credentials{}, fmt.Errorf("the profile %q of the credentials file lacks %s or %s", profile, settingAccessKeyID, settingSecretAccessKey)
	}
	return c, c.validate()
}

// parseProfile returns the settings of a profile; nil if the file does not have it.
func parseProfile(file []byte, profile string) (map[string]string, error) {
	var settings map[string]string
	isProfile, hasSection, number := false, false, 0
	for line := range strings.Lines(string(file)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			continue
		}
		if section, found := strings.CutPrefix(line, "["); found {
			name, _, closed := strings.Cut(section, "]")
			if !closed {
				return nil, fmt.Errorf("line %d of the credentials file is neither a section nor a setting", number)
			}
			name = strings.TrimSpace(name)
			hasSection, isProfile = true, name == profile || strings.TrimSpace(strings.TrimPrefix(name, "profile ")) == profile
			if isProfile && settings == nil {
				settings = map[string]string{}
			}
			continue
		}
		name, value, found := strings.Cut(line, "=")
		switch {
		case !found:
			return nil, fmt.Errorf("line %d of the credentials file is neither a section nor a setting", number)
		case !hasSection:
			return nil, fmt.Errorf("line %d of the credentials file is before the first section, for example [%s]", number, DefaultProfile)
		case isProfile:
			settings[strings.ToLower(strings.TrimSpace(name))] = trimComment(value)
		}
	}
	return settings, nil
}

// trimComment removes a comment, which begins after white space, and the white space around a value.
func trimComment(value string) string {
	for _, start := range []string{" #", " ;", "\t#", "\t;"} {
		value, _, _ = strings.Cut(value, start)
	}
	return strings.TrimSpace(value)
}

// validate returns an error if a key cannot be sent in a header, or has a character that no key has.
func (c Credentials) validate() error {
	isOdd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if strings.ContainsFunc(c.AccessKeyID+c.SecretAccessKey+c.SessionToken, isOdd) {
		return errors.New("a key in the credentials file has white space or characters that cannot be printed")
	}
	return nil
}
