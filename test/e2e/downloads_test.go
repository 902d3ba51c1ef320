// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"io"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/download"
)

// viewer has the role grapnel-viewer, and no right on pods, Secrets or volumes.
const viewer = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: e2e-viewer, namespace: grapnel-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: grapnel-viewer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: e2e-viewer}]
`

// backupLog returns the log of a Backup, as a person with the role grapnel-viewer downloads it: from the
// operator's pod, through the API server's proxy for its Service.
func (c *cluster) backupLog(ctx context.Context, name string) string {
	GinkgoHelper()
	c.apply(ctx, viewer)
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "e2e-viewer"}
	as, err := client.NewWithWatch(config, client.Options{Scheme: c.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	downloads := &download.Client{Client: as, Config: config, Namespace: namespace}
	var content []byte
	Eventually(ctx, func() error { // the binding takes effect a moment later
		file, err := downloads.Open(ctx, v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupLog, Name: name}, false)
		if err != nil {
			return err
		}
		content, err = io.ReadAll(file)
		return errors.Join(err, file.Close())
	}).Should(Succeed())
	_, err = downloads.Open(ctx, v1alpha1.DownloadTarget{Kind: v1alpha1.DownloadBackupContents, Name: name}, false)
	Expect(err).To(MatchError(ContainSubstring("you need the right to get backups/archive")))
	return string(content)
}
