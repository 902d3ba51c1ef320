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
	// Limits of the base.
	Limits Limits
	// SHA256 of the compressed base in hexadecimal, empty if it is not known.
	SHA256 string
	// Size of the compressed base in bytes, 0 if it is not known.
	Size int64
}

// Merged says what Merge did. Each version of an object counts.
type Merged struct {
	// Replaced is how many objects of the base were replaced.
	Replaced int
	// Added is how many objects came behind those of the base.
	Added int
}

// Merge writes the archive base to out, with the objects of overlay in the place of
// those that they replace, and the others of overlay behind the last. The order of the
// base stays. Memory does not grow with the base, which is read once, as it is written.
//
// The base is treated as hostile, as by NewSpool, and it must be the one with the digest
// and size of opts. Only what would take memory for each of its files is not looked for:
// that a file is there twice which overlay does not have. The error is ErrAmbiguous if
// the two archives do not have the same preferred version of a resource, as after an
// upgrade of the API server between them: no restore could tell then which one to
// believe. After any error what was written is useless. It ends early when ctx does.
func Merge(ctx context.Context, out io.Writer, base io.Reader, overlay *Spool, opts MergeOptions) (Merged, error) {
	if overlay.FormatVersion() != FormatVersion {
		return Merged{}, fmt.Errorf("merging archives: %w", errVersion("overlay", overlay.FormatVersion()))
	}
	w, err := NewWriter(out, WriterOptions{Level: opts.Level, ModTime: opts.ModTime})
	if err != nil {
		return Merged{}, err
	}
	m := newMerger(w, overlay)
	source := newVerifier(base, opts.SHA256, opts.Size, ctx.Err)
	if err := walk(source, opts.Limits, func(Entry) bool { return true }, m.take); err != nil {
		return Merged{}, err
	}
	// The verdict comes with the last byte, whether or not walk needed it.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return Merged{}, fmt.Errorf("reading archive: %w", err)
	}
	if !m.versioned {
		return Merged{}, fmt.Errorf("merging archives: %w", errVersion("base", ""))
	}
	if err := m.addRest(ctx); err != nil {
		return Merged{}, err
	}
	return m.merged, w.Close()
}

// errVersion is about an archive of which nobody knows how to write a part.
func errVersion(which, version string) error {
	return fmt.Errorf("the %s has the format version %q, and only %s can be merged", which, version, FormatVersion)
}

// merger is the state of one Merge.
type merger struct {
	out       *Writer
	overlay   *Spool
	preferred map[string]string // of the overlay, by resource
	folders   map[folder]*mergedFolder
	merged    Merged
	// versioned says that the base had its format version.
	versioned bool
	path      []byte
	content   []byte
}

// mergedFolder is a folder of the overlay.
type mergedFolder struct {
	objects Objects
	// written are those that are in the place of another already.
	written []bool
}

func newMerger(out *Writer, overlay *Spool) *merger {
	m := &merger{out: out, overlay: overlay, preferred: map[string]string{}, folders: map[folder]*mergedFolder{}}
	for _, resource := range overlay.Resources() {
		m.preferred[resource.Name] = resource.Preferred
		for _, version := range append(slices.Clone(resource.Versions), "") {
			objects := overlay.Objects(resource.Name, version)
			m.folders[folder{resource.Name, version}] = &mergedFolder{objects: objects, written: make([]bool, objects.Len())}
		}
	}
	return m
}

// take writes one file of the base, or what replaces it.
func (m *merger) take(entry Entry) error {
	if !entry.IsObject() {
		return m.metadata(entry)
	}
	resource := entry.Object.GroupResource()
	if err := m.check(resource, entry.Object); err != nil {
		return fmt.Errorf("merging archives: %w", err)
	}
	in, at, found := m.find(folder{resource, entry.Object.Version}, entry.Object)
	if !found {
		return m.write(entry.Object, entry.Content)
	}
	if in.written[at] {
		return fmt.Errorf("reading archive: %w: %q", ErrDuplicate, entry.Path)
	}
	if entry.Object.Version != "" {
		m.merged.Replaced++
	}
	content, err := m.read(in, at)
	if err != nil {
		return err
	}
	return m.write(entry.Object, content)
}

// find returns where an object of the base is in the overlay.
func (m *merger) find(place folder, id Identity) (in *mergedFolder, at int, found bool) {
	in, found = m.folders[place]
	if found {
		at, found = in.objects.Find(id.Namespace, id.Name)
	}
	return in, at, found
}

// metadata writes a file that is no object. The Writer has written the version.
func (m *merger) metadata(entry Entry) error {
	if entry.Path != versionPath {
		return m.out.file([]byte(entry.Path), entry.Content)
	}
	if version := strings.TrimSpace(string(entry.Content[:min(len(entry.Content), maxFormatVersion)])); version != FormatVersion {
		return fmt.Errorf("merging archives: %w", errVersion("base", version))
	}
	if m.versioned {
		return fmt.Errorf("reading archive: %w: %q", ErrDuplicate, entry.Path)
	}
	m.versioned = true
	return nil
}

// check compares the version that a resource prefers in the base with that of the
// overlay. Either may have none.
func (m *merger) check(resource string, id Identity) error {
	if id.Version == "" {
		return nil
	}
	preferred := m.preferred[resource]
	_, shared := m.folders[folder{resource, id.Version}]
	if shared && id.Preferred != (id.Version == preferred) || id.Preferred && preferred != "" && preferred != id.Version {
		return fmt.Errorf("%w: the overlay has %s in another preferred version (%q) than the base", ErrAmbiguous, resource, preferred)
	}
	return nil
}

// addRest writes what is in the overlay alone, the copies of an object next to each
// other.
func (m *merger) addRest(ctx context.Context) error {
	for _, resource := range m.overlay.Resources() {
		plain := m.folders[folder{resource.Name, ""}]
		for _, version := range resource.Versions {
			preferred := version == resource.Preferred
			in := m.folders[folder{resource.Name, version}]
			for at, item := range in.objects.All() {
				if err := ctx.Err(); err != nil {
					return fmt.Errorf("merging archives: %w", err)
				}
				if twin, found := plain.objects.Find(item.Namespace, item.Name); preferred && found {
					if err := m.add(resource.Name, "", false, plain, twin); err != nil {
						return err
					}
				}
				if err := m.add(resource.Name, version, preferred, in, at); err != nil {
					return err
				}
			}
		}
		for at := range plain.objects.All() {
			if err := m.add(resource.Name, "", false, plain, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// add writes an object of the overlay, unless it was written.
func (m *merger) add(resource, version string, preferred bool, in *mergedFolder, at int) error {
	if in.written[at] {
		return nil
	}
	content, err := m.read(in, at)
	if err != nil {
		return err
	}
	if version != "" {
		m.merged.Added++
	}
	item := in.objects.At(at)
	id := Identity{Version: version, Preferred: preferred, Namespace: item.Namespace, Name: item.Name}
	id.Resource, id.Group, _ = strings.Cut(resource, ".")
	return m.write(id, content)
}

// read returns an object of the overlay, which is written once.
func (m *merger) read(in *mergedFolder, at int) ([]byte, error) {
	in.written[at] = true
	var err error
	m.content, err = m.overlay.Read(in.objects.At(at), m.content)
	return m.content, err
}

func (m *merger) write(id Identity, content []byte) error {
	m.path = id.appendPath(m.path[:0], id.Version != "")
	return m.out.file(m.path, content)
}
