// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Item is a part of an image's content: [File], [Data], [Link], [Directory] or [Tree].
type Item interface {
	add(l *layer) error
}

// File is a file of this machine in an image.
type File struct {
	Path, Source string
	Mode         fs.FileMode
}

// Data is a file in an image with a given content.
type Data struct {
	Path, Content string
	Mode          fs.FileMode
}

// Link is a symbolic link in an image.
type Link struct {
	Path, Target string
}

// Directory is a directory in an image that needs a mode or an owner: other directories are made
// where something lies in them, with mode 0755, as root's.
type Directory struct {
	Path string
	// Mode may have the sticky bit, [fs.ModeSticky].
	Mode fs.FileMode
	// Owner is the number of a user and of its group.
	Owner int
}

// Tree is everything below a directory of this machine, with its modes, as root's. Sockets,
// pipes and devices are left out.
type Tree struct {
	// Path is where it goes; empty is the root.
	Path, Source string
}

// entry is one member of a layer.
type entry struct {
	header tar.Header
	// source is where the content of a file is, unless it is data.
	source string
	data   string
}

// layer is the content of an image by paths without a slash at their beginning.
type layer map[string]entry

// writeLayer writes a layer with all items, and with what every image has. Everything in it was
// last changed at one time.
func writeLayer(out io.Writer, items []Item, changed time.Time) error {
	l := layer{}
	for _, item := range append(base(), items...) {
		if err := item.add(&l); err != nil {
			return err
		}
	}
	archive := tar.NewWriter(out)
	// Sorted, a directory comes before what lies in it.
	for _, name := range slices.Sorted(maps.Keys(l)) {
		e := l[name]
		e.header.ModTime = changed
		if err := e.write(archive); err != nil {
			return fmt.Errorf("adding /%s: %w", name, err)
		}
	}
	return archive.Close()
}

func base() []Item {
	return []Item{
		Directory{Path: "/tmp", Mode: 0o777 | fs.ModeSticky},
		Data{Path: "/etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n"},
		Data{Path: "/etc/group", Mode: 0o644, Content: "root:x:0:\nnonroot:x:65532:\n"},
	}
}

func (e entry) write(archive *tar.Writer) error {
	if e.source == "" {
		e.header.Size = int64(len(e.data))
		if err := archive.WriteHeader(&e.header); err != nil {
			return err
		}
		_, err := io.WriteString(archive, e.data)
		return err
	}
	file, err := os.Open(e.source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	e.header.Size = info.Size()
	if err := archive.WriteHeader(&e.header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// put adds an entry and the directories that it lies in.
func (l layer) put(name string, e entry) error {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" {
		return nil // The root is everywhere.
	}
	if err := l.putParents(name); err != nil {
		return err
	}
	if old, there := l[name]; there && old.header.Typeflag == tar.TypeDir && e.header.Typeflag != tar.TypeDir {
		return fmt.Errorf("/%s is a directory already", name)
	}
	e.header.Name, e.header.Format = name, tar.FormatPAX
	if e.header.Typeflag == tar.TypeDir {
		e.header.Name += "/"
	}
	l[name] = e
	return nil
}

func (l layer) putParents(name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		parent, there := l[dir]
		if !there {
			l[dir] = entry{header: tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, Format: tar.FormatPAX}}
			continue
		}
		if parent.header.Typeflag != tar.TypeDir {
			return fmt.Errorf("/%s lies in /%s, which is not a directory", name, dir)
		}
	}
	return nil
}

func (f File) add(l *layer) error {
	return l.put(f.Path, entry{header: tar.Header{Typeflag: tar.TypeReg, Mode: mode(f.Mode)}, source: f.Source})
}

func (d Data) add(l *layer) error {
	return l.put(d.Path, entry{header: tar.Header{Typeflag: tar.TypeReg, Mode: mode(d.Mode)}, data: d.Content})
}

func (s Link) add(l *layer) error {
	return l.put(s.Path, entry{header: tar.Header{Typeflag: tar.TypeSymlink, Linkname: s.Target, Mode: 0o777}})
}

func (f Directory) add(l *layer) error {
	return l.put(f.Path, entry{header: tar.Header{Typeflag: tar.TypeDir, Mode: mode(f.Mode), Uid: f.Owner, Gid: f.Owner}})
}

func (t Tree) add(l *layer) error {
	return filepath.WalkDir(t.Source, func(source string, found fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(t.Source, source)
		if err != nil {
			return err
		}
		e, wanted, err := entryOf(source, found)
		if err != nil || !wanted {
			return err
		}
		return l.put(path.Join(t.Path, relative), e)
	})
}

func entryOf(source string, found fs.DirEntry) (e entry, wanted bool, err error) {
	info, err := found.Info()
	if err != nil {
		return entry{}, false, err
	}
	e.header.Mode = mode(info.Mode())
	switch info.Mode().Type() {
	case 0:
		e.header.Typeflag, e.source = tar.TypeReg, source
	case fs.ModeDir:
		e.header.Typeflag = tar.TypeDir
	case fs.ModeSymlink:
		e.header.Typeflag, e.header.Mode = tar.TypeSymlink, 0o777
		e.header.Linkname, err = os.Readlink(source)
	default:
		return entry{}, false, nil
	}
	return e, true, err
}

// mode returns the bits of a mode as tar and chmod(2) have them.
func mode(m fs.FileMode) int64 {
	bits := int64(m.Perm())
	for flag, bit := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&flag != 0 {
			bits |= bit
		}
	}
	return bits
}
