// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package backupsync

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/backupstore"
	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/kube/imported"
	"github.com/grapnel-dev/grapnel/internal/objectstore"
)

// read reads a manifest, and returns what is known then, and the object that is made of
// it, if it can be one. Both are nil if the backup is gone.
func (l *look) read(ctx context.Context, found backupstore.Found) (*entry, *v1alpha1.Backup, error) {
	before := l.memory.entries[found.Name]
	b, err := l.make(ctx, found.Name)
	if errors.Is(err, objectstore.ErrNotExist) {
		return nil, nil, nil
	}
	if err := l.general(ctx, err); err != nil {
		return nil, nil, err
	}
	known := &entry{open: err == nil && b == nil}
	switch {
	case err != nil:
		known.problem = l.reason(err)
	case b != nil:
		known.uid = b.Spec.ImportedFrom.BackupUID
	}
	l.memory.learn(found, known)
	known.delay(before, l.Pause, l.Now())
	return known, b, nil
}

// make reads a manifest and makes an object of it; it is nil if the backup has not ended.
func (l *look) make(ctx context.Context, name string) (*v1alpha1.Backup, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	velero, grapnel, err := l.store.Manifest(ctx, name)
	if err != nil {
		return nil, err
	}
	return imported.Backup(imported.Source{
		Namespace: l.bsl.Namespace, Location: l.bsl.Name, Prefix: l.bsl.Spec.Prefix, Name: name, Redact: l.Redactor.String,
	}, velero, grapnel)
}

// errHangs means that a store lists what it has, and does no more.
var errHangs = fmt.Errorf("the location lists its backups, but %d manifests in a row could not be read in %s each; "+
	"see whether its service, volume or network is overloaded", maxHung, readTimeout)

// general returns the error of reading a manifest if it is one of the location rather than
// of one backup.
func (l *look) general(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		l.hung = 0
	} else if l.hung++; l.hung == maxHung && ctx.Err() == nil {
		return errHangs
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, objectstore.ErrUnavailable) || errors.Is(err, objectstore.ErrNoStore)) {
		return err
	}
	return nil
}

// reason says why a backup can not be imported.
func (l *look) reason(err error) string {
	var corrupt *backupstore.CorruptError
	if errors.As(err, &corrupt) {
		return l.line(fmt.Sprintf("file %q %s", corrupt.File, corrupt.Reason))
	}
	return l.line(err.Error())
}

// maxProblem is how much is kept of why a backup can not be imported, in bytes.
const maxProblem = 400

// line returns a text as one short line without secrets.
func (l *look) line(text string) string {
	text = executor.OneLine(l.Redactor.String(text))
	if len(text) > maxProblem {
		text = strings.ToValidUTF8(text[:maxProblem], "") + "…"
	}
	return text
}
