// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Grapnel returns the image of the operator, with the programs of this machine's files. Beside
// them, it has only what programs in Go read: the certificates of public authorities, which
// plugins need, too. The operator has the time zones built in.
func Grapnel(name, manager, csi string) Image {
	return Image{
		Name: name, User: NonRoot, Entrypoint: []string{"/manager"},
		Content: []Item{
			File{Path: "/manager", Source: manager, Mode: 0o755},
			File{Path: "/plugins/csi", Source: csi, Mode: 0o755},
			Data{Path: "/etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Content: listAuthorities()},
		},
	}
}

// listAuthorities returns the certificates that Mozilla trusts, as its list is in the module that
// go.mod pins. Those that are trusted with a constraint are left out: the file could not have it.
func listAuthorities() string {
	var list bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			list.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return list.String()
}
