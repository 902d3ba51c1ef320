// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/lifecycle"
)

const deletionName = "shop-is-old"

// deletionFacts are the results of the deletion.
type deletionFacts struct {
	deletion v1alpha1.DeletionRun
	// objects, files and copies are those of the backup that are still there.
	objects, files, copies []string
}

// destroy has the backup destroyed.
func (d *demo) destroy(ctx context.Context) error {
	d.say("What there is of it, besides the objects:")
	d.gap()
	if err := d.show(ctx, "find "+d.short(d.storeDir())+" "+d.short(d.copyDir())+" -type f"); err != nil {
		return err
	}
	d.gap()
	return d.start(ctx, lifecycle.DeletionRunKind, deletionName, manifests+"deletionrun.yaml")
}

// storeDir is the directory of the location, and copyDir the one in which the example plugin keeps
// copies.
func (d *demo) storeDir() string { return filepath.Join(d.dir, "store", "main") }

func (d *demo) copyDir() string { return filepath.Join(d.state(), "example-copies") }

// reviewDeletion shows and checks what is left.
func (d *demo) reviewDeletion(ctx context.Context) error {
	if err := d.show(ctx,
		"kubectl get backups,restores,deletionruns,hookruns -n "+namespace,
		"find "+d.short(d.storeDir())+" "+d.short(d.copyDir())+" -type f",
	); err != nil {
		return err
	}
	facts, err := d.collectDeletion(ctx)
	if err != nil {
		return err
	}
	d.heading("Check that everything is as it should be")
	return verify(&d.printer, facts, deletionChecks())
}

func (d *demo) collectDeletion(ctx context.Context) (*deletionFacts, error) {
	f := &deletionFacts{}
	if err := d.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: deletionName}, &f.deletion); err != nil {
		return nil, err
	}
	err := d.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: backupName}, &v1alpha1.Backup{})
	if err == nil {
		f.objects = append(f.objects, "Backup "+backupName)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if f.files, err = filesBelow(d.storeDir()); err != nil {
		return nil, err
	}
	f.copies, err = filesBelow(d.copyDir())
	return f, err
}

// filesBelow returns the files below a directory, which may be missing.
func filesBelow(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, err
}

// deletionChecks returns all checks of the deletion.
func deletionChecks() []check[*deletionFacts] {
	return []check[*deletionFacts]{
		{"The DeletionRun is Completed and left nothing behind", func(f *deletionFacts) error {
			if s := f.deletion.Status; s.Phase != v1alpha1.RunPhaseCompleted || len(s.LeftBehind) > 0 {
				return fmt.Errorf("it is %s: %s", s.Phase, s.Message)
			}
			return nil
		}},
		{"The DeleteAction of the plugin ran, once", func(f *deletionFacts) error {
			actions := f.deletion.Status.DeleteActionsStatuses
			if actions == nil || len(*actions) != 1 || (*actions)[0].Phase != v1alpha1.ActionPhaseCompleted {
				return fmt.Errorf("the status has %+v", actions)
			}
			return nil
		}},
		{"Its DeleteItemAction was shown the claim that is in the archive", func(f *deletionFacts) error {
			for _, did := range f.deletion.Status.DeleteItemActions {
				if did.PluginName == copyAction && did.Items == 1 && did.Failed == 0 {
					return nil
				}
			}
			return fmt.Errorf("the status has %+v", f.deletion.Status.DeleteItemActions)
		}},
		{"The Backup is gone", func(f *deletionFacts) error { return none(f.objects) }},
		{"So are all files in the location", func(f *deletionFacts) error { return none(f.files) }},
		{"So is the copy of the claim's data that the plugin kept elsewhere", func(f *deletionFacts) error { return none(f.copies) }},
	}
}

func none(left []string) error {
	if len(left) == 0 {
		return nil
	}
	return errors.New("there is " + strings.Join(left, ", "))
}
