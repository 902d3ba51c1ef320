// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
)

// newDiffCommand returns the command that compares a backup with another one, or with the cluster.
func (a *app) newDiffCommand() *cobra.Command {
	var cluster bool
	command := &cobra.Command{
		Use: "diff BACKUP (BACKUP2 | --cluster)", Short: "Compare a backup with another one, or with the cluster", Args: cobra.RangeArgs(1, 2),
		Long: "Compare a backup with another one, or with the cluster.\n\n" +
			"Two backups are compared object by object, without their status, their versions and their managedFields. With\n" +
			"--cluster, a dry run of a Restore says which objects are missing in the cluster or differ there; objects that only\n" +
			"the cluster has are not listed. The exit code is 1 if there is a difference.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == (len(args) == 2) {
				return errors.New("name a second backup, or set --cluster")
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			for _, name := range args {
				if _, err := c.getRun(cmd.Context(), backups, name); err != nil {
					return err
				}
			}
			if cluster {
				return a.diffCluster(cmd.Context(), c, args[0])
			}
			return a.diffBackups(cmd.Context(), c, args[0], args[1])
		},
	}
	command.Flags().BoolVar(&cluster, "cluster", false, "compare with the cluster as it is now")
	return command
}

// contentHash is a hash of what matters of an object.
type contentHash [sha256.Size]byte

// readContentHashes returns the hash of each object in an archive, by "kind namespace/name".
func (c *connection) readContentHashes(ctx context.Context, backup string) (map[string]contentHash, error) {
	hashes := map[string]contentHash{}
	err := c.withFile(ctx, v1alpha1.DownloadBackupContents, backup, false, func(file io.Reader) error {
		return archive.Walk(file, archive.Limits{}, func(entry archive.Entry) error {
			id := entry.Object
			if !entry.IsObject() || id.Version != "" {
				return nil // a copy with its version in the path, or metadata
			}
			hash, err := hashContent(entry.Content)
			hashes[id.GroupResource()+" "+strings.TrimPrefix(id.Namespace+"/"+id.Name, "/")] = hash
			return err
		})
	})
	return hashes, err
}

// hashContent returns the hash of an object without what changes by itself.
func hashContent(content []byte) (contentHash, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		return contentHash{}, fmt.Errorf("reading an object: %w", err)
	}
	unstructured.RemoveNestedField(object.Object, "status")
	for _, field := range []string{"resourceVersion", "uid", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	canonical, err := json.Marshal(object.Object) // sorts the keys
	if err != nil {
		return contentHash{}, fmt.Errorf("encoding an object: %w", err)
	}
	return sha256.Sum256(canonical), nil
}

// diffBackups prints how the second backup differs from the first one.
func (a *app) diffBackups(ctx context.Context, c *connection, first, second string) error {
	before, err := c.readContentHashes(ctx, first)
	if err != nil {
		return err
	}
	after, err := c.readContentHashes(ctx, second)
	if err != nil {
		return err
	}
	lines := diffHashes(before, after)
	for _, line := range lines {
		if err := a.out.printf("%s\n", line); err != nil {
			return err
		}
	}
	return a.reportDifferences(len(lines))
}

// diffHashes returns a line for each object that is only in one of two backups, or differs.
func diffHashes(before, after map[string]contentHash) []string {
	var lines []string
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		old, wasThere := before[name]
		current, isThere := after[name]
		switch {
		case !isThere:
			lines = append(lines, "removed  "+name)
		case !wasThere:
			lines = append(lines, "added    "+name)
		case old != current:
			lines = append(lines, "changed  "+name)
		}
	}
	return lines
}

// reportDifferences returns the exit code of a comparison.
func (a *app) reportDifferences(count int) error {
	if count > 0 {
		return &exitError{code: exitFailure}
	}
	return a.out.printf("no difference\n")
}

// diffCluster prints which objects of a backup are missing in the cluster or differ there.
func (a *app) diffCluster(ctx context.Context, c *connection, backup string) (err error) {
	r := &v1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "diff-"},
		Spec: v1alpha1.RestoreSpec{
			BackupName: backup, DryRun: true, ExistingResourcePolicy: v1alpha1.ExistingResourcePolicyUpdate,
		},
	}
	if err := c.Create(ctx, r); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.deleteAfterUse(ctx, r)) }()
	ended, err := a.waitForEnd(ctx, c, restores, r.Name)
	if err != nil {
		return err
	}
	if !hasOutcomes(ended) {
		return a.reportOutcome(restores, ended)
	}
	count := 0
	err = c.withFile(ctx, v1alpha1.DownloadRestoreResourceList, r.Name, false, func(file io.Reader) error {
		outcomes, err := readOutcomes(file)
		for _, o := range outcomes {
			label, differs := map[string]string{"created": "missing", "updated": "changed", "failed": "unknown"}[o.outcome]
			if !differs || err != nil {
				continue
			}
			count++
			err = a.out.printf("%-8s %s %s\n", label, o.kind, o.name)
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.reportDifferences(count)
}
