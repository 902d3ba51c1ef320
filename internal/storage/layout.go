// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// File is a file of a backup other than its manifests.
type File string

// The files of a backup. All are gzip-compressed.
const (
	// Contents is the archive, <b>.tar.gz. It is written by PutContents only.
	Contents File = "contents"
	// Logs is the log of the run up to its outcome, <b>-logs.gz.
	Logs File = "logs"
	// PostLogs is the log of the PostBackup actions, <b>-post-logs.gz.
	PostLogs File = "post-logs"
	// Results lists warnings and errors, <b>-results.gz.
	Results File = "results"
	// ResourceList names what is in the archive, <b>-resource-list.json.gz.
	ResourceList File = "resource-list"
	// VolumeInfo describes volumes, <b>-volumeinfo.json.gz.
	VolumeInfo File = "volumeinfo"
	// ItemOperations lists asynchronous operations, <b>-itemoperations.json.gz.
	ItemOperations File = "itemoperations"
	// PodVolumeBackups is <b>-podvolumebackups.json.gz.
	PodVolumeBackups File = "podvolumebackups"
	// VolumeSnapshots is <b>-volumesnapshots.json.gz.
	VolumeSnapshots File = "volumesnapshots"
	// Draft is the state of a backup whose archive is stored and whose operations are still
	// in progress, <b>-grapnel-draft.json.gz. It is not part of a complete backup.
	Draft File = "draft"
	// MergedContents is the archive that will replace Contents, <b>-grapnel-merged.tar.gz,
	// and MergedDraft the draft that belongs to it, <b>-grapnel-merged.json.gz. They are
	// not part of a complete backup.
	MergedContents File = "merged-contents"
	MergedDraft    File = "merged-draft"
)

// RestoreFile is a file of a restore.
type RestoreFile string

// The files of a restore, all gzip-compressed, in restores/<r>/.
const (
	// RestoreLogs is the log of the run, restore-<r>-logs.gz.
	RestoreLogs RestoreFile = "-logs.gz"
	// RestorePostLogs is the log of the PostRestore actions,
	// restore-<r>-post-logs.gz.
	RestorePostLogs RestoreFile = "-post-logs.gz"
	// RestoreResults lists warnings and errors, restore-<r>-results.gz.
	RestoreResults RestoreFile = "-results.gz"
	// RestoreResourceList has the outcome of each item, restore-<r>-resource-list.json.gz.
	RestoreResourceList RestoreFile = "-resource-list.json.gz"
	// RestoreItemOperations lists asynchronous operations,
	// restore-<r>-itemoperations.json.gz.
	RestoreItemOperations RestoreFile = "-itemoperations.json.gz"
)

const (
	backupsDir  = "backups/"
	restoresDir = "restores/"

	manifestName  = "velero-backup.json"
	grapnelSuffix = "-grapnel.json"

	maxFileNameLength = 255
	// maxAffixLength is the maximum length that a file name adds to the name of a backup
	// ("-podvolumebackups.json.gz") or restore ("restore-" and "-itemoperations.json.gz").
	maxAffixLength = len("restore-") + len("-itemoperations.json.gz")
)

// MaxNameLength is the longest name of a backup or restore, in bytes, for which every file
// name fits into the 255 bytes of file systems.
func MaxNameLength() int { return maxFileNameLength - maxAffixLength }

// ErrInvalidName means that a backup or restore cannot have that name.
var ErrInvalidName = errors.New("invalid name")

// namePattern is that of Kubernetes objects (RFC 1123 subdomain). It keeps slashes, dot
// segments and control characters out of keys.
var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// ValidateName checks the name of a backup or restore: lower-case letters,
// digits, dashes and dots as in object names, at most MaxNameLength bytes.
// The error is ErrInvalidName with the reason.
func ValidateName(name string) error {
	if len(name) > MaxNameLength() {
		return fmt.Errorf("%w: it has %d characters; the limit is %d, because the names of its files contain it", ErrInvalidName, len(name), MaxNameLength())
	}
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w: %q must consist of lower-case letters, digits, dashes and dots, and start and end with a letter or digit",
			ErrInvalidName, name)
	}
	return nil
}

// fileSuffixes returns the suffix of every file of a backup.
func fileSuffixes() map[File]string {
	return map[File]string{
		Contents:         ".tar.gz",
		Logs:             "-logs.gz",
		PostLogs:         "-post-logs.gz",
		Results:          "-results.gz",
		ResourceList:     "-resource-list.json.gz",
		VolumeInfo:       "-volumeinfo.json.gz",
		ItemOperations:   "-itemoperations.json.gz",
		PodVolumeBackups: "-podvolumebackups.json.gz",
		VolumeSnapshots:  "-volumesnapshots.json.gz",
		Draft:            "-grapnel-draft.json.gz",
		MergedContents:   "-grapnel-merged.tar.gz",
		MergedDraft:      "-grapnel-merged.json.gz",
	}
}

// FileName returns the name of a file of the backup, as in "nightly-logs.gz", or "" for an
// unknown file.
func FileName(backup string, file File) string {
	suffix, found := fileSuffixes()[file]
	if !found {
		return ""
	}
	return backup + suffix
}

// FileKey returns the key of a file of a backup, below the root of a location with that
// prefix; "" for an unknown file.
func FileKey(prefix, backup string, file File) string {
	base := FileName(backup, file)
	if base == "" {
		return ""
	}
	return path.Join(prefix, backupsDir, backup, base)
}

func (s *Store) backupDir(name string) string { return s.prefix + backupsDir + name + "/" }

func (s *Store) manifestKey(name string) string { return s.backupDir(name) + manifestName }

func (s *Store) grapnelKey(name string) string { return s.backupDir(name) + name + grapnelSuffix }

func (s *Store) claimKey(name string, number int) string {
	if number == 1 {
		return s.backupDir(name) + name + "-claim.json"
	}
	return s.backupDir(name) + name + "-claim-" + strconv.Itoa(number) + ".json"
}

// parseClaimNumber is the inverse of claimKey for the last segment; 0 for other files.
func parseClaimNumber(backup, base string) int {
	rest, ok := strings.CutPrefix(base, backup+"-claim")
	if !ok {
		return 0
	}
	if rest, ok = strings.CutSuffix(rest, ".json"); !ok {
		return 0
	}
	if rest == "" {
		return 1
	}
	number, err := strconv.Atoi(strings.TrimPrefix(rest, "-"))
	if err != nil || number < 2 || rest != "-"+strconv.Itoa(number) {
		return 0
	}
	return number
}

func (s *Store) fileKey(name string, file File) (string, error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	base := FileName(name, file)
	if base == "" {
		return "", fmt.Errorf("a backup has no file %q", string(file))
	}
	return s.backupDir(name) + base, nil
}

// RestoreFileKey is FileKey for a file of a restore.
func RestoreFileKey(prefix, name string, file RestoreFile) string {
	return path.Join(prefix, restoresDir, name, "restore-"+name+string(file))
}

func (s *Store) restoreDir(name string) string { return s.prefix + restoresDir + name + "/" }

func (s *Store) restoreFileKey(name string, file RestoreFile) (string, error) {
	if err := ValidateName(name); err != nil {
		return "", err
	}
	switch file {
	case RestoreLogs, RestorePostLogs, RestoreResults, RestoreResourceList, RestoreItemOperations:
		return s.restoreDir(name) + "restore-" + name + string(file), nil
	}
	return "", fmt.Errorf("a restore has no file %q", string(file))
}
