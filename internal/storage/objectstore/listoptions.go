// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package objectstore

import (
	"fmt"
	"strings"
)

// Validate checks the options. Each store calls it before it lists.
func (o ListOptions) Validate() error {
	if o.Delimiter != "" && o.Delimiter != "/" {
		return fmt.Errorf("delimiter %q is not supported, only a slash", o.Delimiter)
	}
	return ValidatePrefix(o.Prefix)
}

// RollUp converts an object whose key starts with the prefix to its entry in the list: a
// common prefix if the delimiter requires that, otherwise the object itself.
func (o ListOptions) RollUp(info Info) Entry {
	if o.Delimiter == "" {
		return Entry{Info: info}
	}
	rest := info.Key[len(o.Prefix):]
	before, _, found := strings.Cut(rest, o.Delimiter)
	if !found {
		return Entry{Info: info}
	}
	return Entry{Info: Info{Key: o.Prefix + before + o.Delimiter}, IsPrefix: true}
}
