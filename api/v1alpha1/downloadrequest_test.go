// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDownloadRequestAdmission(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	checkAdmission(t, "DownloadRequest", map[string]admission{
		"a log":               {body: `{spec: {target: {kind: BackupLog, name: b}, tokenHash: ` + hash + `}}`},
		"no spec":             {rejected: "spec: Required value"},
		"no target":           {body: `{spec: {tokenHash: ` + hash + `}}`, rejected: "spec.target: Required value"},
		"no name":             {body: `{spec: {target: {kind: BackupLog}, tokenHash: ` + hash + `}}`, rejected: "spec.target.name: Required value"},
		"an unknown file":     {body: `{spec: {target: {kind: BackupSecrets, name: b}, tokenHash: ` + hash + `}}`, rejected: `Unsupported value: "BackupSecrets"`},
		"no hash":             {body: `{spec: {target: {kind: BackupLog, name: b}}}`, rejected: "spec.tokenHash: Required value"},
		"a token, no hash":    {body: `{spec: {target: {kind: BackupLog, name: b}, tokenHash: swordfish}}`, rejected: "spec.tokenHash"},
		"a hash in capitals":  {body: `{spec: {target: {kind: BackupLog, name: b}, tokenHash: ` + strings.ToUpper(hash) + `}}`, rejected: "spec.tokenHash"},
		"a hash and one more": {body: `{spec: {target: {kind: BackupLog, name: b}, tokenHash: ` + hash + `0}}`, rejected: "spec.tokenHash: Too long"},
	})
}

func TestDownloadRequestChanges(t *testing.T) {
	body := `{spec: {target: {kind: BackupLog, name: b}, tokenHash: ` + strings.Repeat("0a", 32) + `}}`
	const rejected = "a DownloadRequest cannot be changed; create another one"
	checkChanges(t, "DownloadRequest", func(*testing.T, *unstructured.Unstructured) {}, map[string]change{
		"another Backup": {body: body, patch: `{"spec":{"target":{"name":"c"}}}`, rejected: rejected},
		"another file":   {body: body, patch: `{"spec":{"target":{"kind":"BackupContents"}}}`, rejected: rejected},
		"another token":  {body: body, patch: `{"spec":{"tokenHash":"` + strings.Repeat("0b", 32) + `"}}`, rejected: rejected},
		"a label":        {body: body, patch: `{"metadata":{"labels":{"a":"b"}}}`},
	})
}
