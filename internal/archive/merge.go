// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	// Level of compression, 1 to 9; 0 means DefaultLevel.
	Level int
	// ModTime is the modification time of every file, whole seconds.
	ModTime time.Time
	// Limits of the base, and of the merged archive.
	Limits Limits
	// SHA256 of the compressed base in hexadecimal, empty if unknown.
	SHA256 string
	// Size of the compressed base in bytes, 0 if unknown.
	Size int64
}

// MergeResult counts the changes by Merge. Each version of an object counts.
type MergeResult struct {
	// Replaced is the number of replaced objects of the base.
	Replaced int
	// Added is the number of objects added after those of the base.
	Added int
}

// Merge writes the archive base to out. Objects of overlay replace those of base, and the
// other objects of overlay follow after the last. The order of the base stays. Memory does
// not grow with the base, which is read once, while it is written.
//
// The base is treated as hostile, as by NewSpool, and it must have the digest and size of
// opts. One check is omitted, because it would need memory for each file of the base:
// duplicate files that overlay does not have. The error is ErrAmbiguous if the two archives
// have different preferred versions of a resource, for example after an upgrade of the API
// server between them: no restore could decide which one is valid. After an error the
// output is useless. Merge stops when ctx ends.
func Merge(ctx context.Context, out io.Writer, base io.Reader, overlay *Spool, opts MergeOptions) (MergeResult, error) {
	if overlay.FormatVersion() != FormatVersion {
		return MergeResult{}, fmt.Errorf("merging archives: %w", newVersionError("overlay", overlay.FormatVersion()))
	}
	w, err := NewWriter(out, WriterOptions{Level: opts.Level, ModTime: opts.ModTime, Limits: opts.Limits})
	if err != nil {
		return MergeResult{}, err
	}
	m := newMerger(w, overlay)
	source := newVerifier(base, opts.SHA256, opts.Size, ctx.Err)
	if err := walkEntries(source, opts.Limits, func(Entry) bool { return true }, m.mergeBaseEntry); err != nil {
		return MergeResult{}, err
	}
	// The verification ends with the last byte, whether or not walk needed it.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return MergeResult{}, fmt.Errorf("reading archive: %w", err)
	}
	if !m.hasFormatVersion {
		return MergeResult{}, fmt.Errorf("merging archives: %w", newVersionError("base", ""))
	}
	if err := m.addRemainingObjects(ctx); err != nil {
		return MergeResult{}, err
	}
	return m.result, w.Close()
}

// newVersionError is the error for an archive with an unsupported format version.
func newVersionError(which, version string) error {
	return fmt.Errorf("the %s has the format version %q, and only %s can be merged", which, version, FormatVersion)
}

// merger is the state of one Merge.
type merger struct {
	out         *Writer
	overlay     *Spool
	preferred   map[string]string // preferred versions of the overlay, by resource
	directories map[directoryKey]*overlayDirectory
	result      MergeResult
	// hasFormatVersion reports that the base had its format version.
	hasFormatVersion bool
	content          []byte
}

// overlayDirectory is a directory of the overlay.
type overlayDirectory struct {
	objects Objects
	// written marks the objects that already replaced another.
	written []bool
}

func newMerger(out *Writer, overlay *Spool) *merger {
	m := &merger{out: out, overlay: overlay, preferred: map[string]string{}, directories: map[directoryKey]*overlayDirectory{}}
	for _, resource := range overlay.Resources() {
		m.preferred[resource.Name] = resource.Preferred
		for _, version := range append(slices.Clone(resource.Versions), "") {
			objects := overlay.Objects(resource.Name, version)
			m.directories[directoryKey{resource.Name, version}] = &overlayDirectory{objects: objects, written: make([]bool, objects.Len())}
		}
	}
	return m
}

// mergeBaseEntry writes one file of the base, or its replacement.
func (m *merger) mergeBaseEntry(entry Entry) error {
	if !entry.IsObject() {
		return m.mergeMetadata(entry)
	}
	resource := entry.Object.GroupResource()
	if err := m.checkPreferredVersion(resource, entry.Object); err != nil {
		return fmt.Errorf("merging archives: %w", err)
	}
	in, at, found := m.findInOverlay(directoryKey{resource, entry.Object.Version}, entry.Object)
	if !found {
		return m.writeObject(entry.Object, entry.Content)
	}
	if in.written[at] {
		return fmt.Errorf("reading archive: %w: %q", ErrDuplicate, entry.Path)
	}
	if entry.Object.Version != "" {
		m.result.Replaced++
	}
	content, err := m.readOverlayObject(in, at)
	if err != nil {
		return err
	}
	return m.writeObject(entry.Object, content)
}

// findInOverlay returns the position of an object of the base in the overlay.
func (m *merger) findInOverlay(place directoryKey, id Identity) (in *overlayDirectory, at int, found bool) {
	in, found = m.directories[place]
	if found {
		at, found = in.objects.Find(id.Namespace, id.Name)
	}
	return in, at, found
}

// mergeMetadata writes a file that is not an object. The Writer has written the version.
func (m *merger) mergeMetadata(entry Entry) error {
	if entry.Path != versionPath {
		return m.out.writeTarFile([]byte(entry.Path), entry.Content)
	}
	if version := strings.TrimSpace(string(entry.Content[:min(len(entry.Content), maxFormatVersion)])); version != FormatVersion {
		return fmt.Errorf("merging archives: %w", newVersionError("base", version))
	}
	if m.hasFormatVersion {
		return fmt.Errorf("reading archive: %w: %q", ErrDuplicate, entry.Path)
	}
	m.hasFormatVersion = true
	return nil
}

// checkPreferredVersion compares the preferred version of a resource in the base with that
// of the overlay. Either may have none.
func (m *merger) checkPreferredVersion(resource string, id Identity) error {
	if id.Version == "" {
		return nil
	}
	preferred := m.preferred[resource]
	_, shared := m.directories[directoryKey{resource, id.Version}]
	if shared && id.Preferred != (id.Version == preferred) || id.Preferred && preferred != "" && preferred != id.Version {
		return fmt.Errorf("%w: the preferred version of %s in the overlay (%q) differs from the base", ErrAmbiguous, resource, preferred)
	}
	return nil
}

// addRemainingObjects writes the objects that are only in the overlay, the copies of an
// object next to each other.
func (m *merger) addRemainingObjects(ctx context.Context) error {
	for _, resource := range m.overlay.Resources() {
		plain := m.directories[directoryKey{resource.Name, ""}]
		for _, version := range resource.Versions {
			preferred := version == resource.Preferred
			in := m.directories[directoryKey{resource.Name, version}]
			for at, item := range in.objects.All() {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("merging archives: %w", err)
				}
				if twin, found := plain.objects.Find(item.Namespace, item.Name); preferred && found {
					if err := m.addOverlayObject(resource.Name, "", false, plain, twin); err != nil {
						return err
					}
				}
				if err := m.addOverlayObject(resource.Name, version, preferred, in, at); err != nil {
					return err
				}
			}
		}
		for at := range plain.objects.All() {
			if err := m.addOverlayObject(resource.Name, "", false, plain, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// addOverlayObject writes an object of the overlay, unless it is already written.
func (m *merger) addOverlayObject(resource, version string, preferred bool, in *overlayDirectory, at int) error {
	if in.written[at] {
		return nil
	}
	content, err := m.readOverlayObject(in, at)
	if err != nil {
		return err
	}
	if version != "" {
		m.result.Added++
	}
	item := in.objects.At(at)
	id := Identity{Version: version, Preferred: preferred, Namespace: item.Namespace, Name: item.Name}
	id.Resource, id.Group, _ = strings.Cut(resource, ".")
	return m.writeObject(id, content)
}

// readOverlayObject returns an object of the overlay and marks it as written.
func (m *merger) readOverlayObject(in *overlayDirectory, at int) ([]byte, error) {
	in.written[at] = true
	var err error
	m.content, err = m.overlay.Read(in.objects.At(at), m.content)
	return m.content, err
}

func (m *merger) writeObject(id Identity, content []byte) error {
	return m.out.writeObjectCopy(id, content)
}
