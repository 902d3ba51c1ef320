// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/grapnel-dev/grapnel/internal/redact"
	"github.com/grapnel-dev/grapnel/internal/text"
)

const (
	// maxBundleFile is how much of a file is kept, its end.
	maxBundleFile = 5 << 20
	// maxBundle is how large the archive may be before it is compressed.
	maxBundle = 100 << 20
	// maxBundleLine is the longest line that is kept.
	maxBundleLine = 1 << 20
	// tarBlock is the size of a header of a file, and the unit of its content.
	tarBlock = 512
	// bundleDirectory has everything in the archive.
	bundleDirectory = "grapnel-support-bundle"
	bundleIndex     = "README.txt"
)

// bundle is the archive of a support bundle. It redacts everything that is added.
type bundle struct {
	redactor   *redact.Redactor
	compressed *gzip.Writer
	tar        *tar.Writer
	time       time.Time
	// remaining is how many bytes may still be written.
	remaining int64
	files     []bundleFile
	names     map[string]bool
	// leftOut says what is not in the bundle, and why.
	leftOut []string
}

// bundleFile is a file in a bundle.
type bundleFile struct {
	name string
	size int
	// dropped is how many bytes were left out before its first line.
	dropped int64
}

// newBundle returns an archive that is written to w. The index has room even if nothing else has.
func newBundle(w io.Writer, redactor *redact.Redactor, at time.Time) *bundle {
	compressed := gzip.NewWriter(w)
	return &bundle{
		redactor: redactor, compressed: compressed, tar: tar.NewWriter(compressed), time: at,
		remaining: maxBundle - tarSize(maxBundleFile), names: map[string]bool{bundleIndex: true},
	}
}

// tarSize returns how much of an archive a file takes.
func tarSize(size int) int64 { return int64(tarBlock + (size+tarBlock-1)/tarBlock*tarBlock) }

// leaveOut records that something is not in the bundle.
func (b *bundle) leaveOut(what string, err error) {
	why := err.Error()
	switch {
	case apierrors.IsForbidden(err):
		why = "you have no right to read it"
	case errors.Is(err, context.DeadlineExceeded):
		why = fmt.Sprintf("there was no time left after %s", bundleTimeout)
	}
	line := strings.Join(strings.Fields(text.StripControl(what+": "+why)), " ")
	b.leftOut = append(b.leftOut, b.redactor.String(line))
}

// errFull is why a file is not in a bundle.
var errFull = fmt.Errorf("the bundle would be larger than %d MiB", maxBundle>>20)

// addFile adds a text file below some directories. It redacts its lines, removes control characters, and keeps the end of
// a file that is too large. The error is one of the archive: what cannot be read is left out.
func (b *bundle) addFile(content io.Reader, segments ...string) error {
	name := b.newName(segments)
	var kept tailBuffer
	if err := b.redactLines(content, &kept); err != nil {
		b.leaveOut(name+" is incomplete", err)
		if len(kept.content) == 0 {
			return nil
		}
	}
	lines, dropped := kept.lastLines()
	if tarSize(len(lines)) > b.remaining {
		b.leaveOut(name, errFull)
		return nil
	}
	b.remaining -= tarSize(len(lines))
	b.files = append(b.files, bundleFile{name: name, size: len(lines), dropped: dropped})
	return b.writeEntry(name, lines)
}

// newName returns a name that no file has yet, and that does not leave the directory of the bundle.
func (b *bundle) newName(segments []string) string {
	name := bundlePath(segments...)
	extension := path.Ext(name)
	base := strings.TrimSuffix(name, extension)
	for i := 2; b.names[name]; i++ {
		name = fmt.Sprintf("%s_%d%s", base, i, extension)
	}
	b.names[name] = true
	return name
}

// bundlePath returns the path of a file in some directories, whatever their names are.
func bundlePath(segments ...string) string {
	var parts []string
	for _, segment := range segments {
		parts = append(parts, sanitizeName(segment))
	}
	return path.Join(parts...)
}

// sanitizeName returns a name for a file that is a path on no system. Its end, the extension, is kept.
func sanitizeName(name string) string {
	const maxName = 100
	safe := strings.Map(func(r rune) rune {
		isSafe := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r)
		if !isSafe {
			return '_'
		}
		return r
	}, name)
	if len(safe) > maxName {
		safe = safe[len(safe)-maxName:]
	}
	safe = strings.TrimLeft(safe, ".-")
	if safe == "" {
		return "_"
	}
	return safe
}

// redactLines copies lines without secrets. Lines that are too long are left out: a secret in them could be cut.
func (b *bundle) redactLines(content io.Reader, out *tailBuffer) error {
	stream := b.redactor.NewStream()
	lines := bufio.NewReaderSize(content, maxBundleLine)
	for {
		line, err := lines.ReadSlice('\n')
		skipped := int64(0)
		for errors.Is(err, bufio.ErrBufferFull) {
			skipped += int64(len(line))
			line, err = lines.ReadSlice('\n')
		}
		switch {
		case skipped > 0:
			out.writeLine(fmt.Sprintf("[a line of %d bytes is left out]", skipped+int64(len(line))))
		case len(line) > 0:
			if redacted, shown := stream.RedactLine(strings.TrimSuffix(string(line), "\n")); shown {
				out.writeLine(text.StripControl(redacted))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tailBuffer keeps the last lines that are written to it.
type tailBuffer struct {
	content []byte
	dropped int64
}

func (t *tailBuffer) writeLine(line string) {
	t.content = append(append(t.content, line...), '\n')
	if len(t.content) > 2*maxBundleFile {
		t.trimToLimit()
	}
}

// trimToLimit removes all lines but the last ones.
func (t *tailBuffer) trimToLimit() {
	excess := len(t.content) - maxBundleFile
	if excess <= 0 {
		return
	}
	excess += bytes.IndexByte(t.content[excess-1:], '\n') // 0 if a line begins there
	t.dropped += int64(excess)
	t.content = append([]byte(nil), t.content[excess:]...)
}

// lastLines returns the last lines, and how many bytes there were before them.
func (t *tailBuffer) lastLines() (content []byte, dropped int64) {
	t.trimToLimit()
	return t.content, t.dropped
}

// writeEntry writes a file to the archive.
func (b *bundle) writeEntry(name string, content []byte) error {
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: path.Join(bundleDirectory, name), Size: int64(len(content)), Mode: 0o600, ModTime: b.time, Format: tar.FormatPAX,
	}
	if err := b.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := b.tar.Write(content)
	return err
}

// writeIndexAndClose writes the index, and ends the archive.
func (b *bundle) writeIndexAndClose() error {
	var index tailBuffer
	for _, line := range []string{
		"A support bundle of Grapnel, for a bug report. Values that may be secret are replaced by " + redact.Placeholder + ".",
		"It has names of namespaces, objects and hosts. Review it before you share it.", "", "Files:",
	} {
		index.writeLine(line)
	}
	for _, f := range b.files {
		line := fmt.Sprintf("  %s, %d bytes", f.name, f.size)
		if f.dropped > 0 {
			line += fmt.Sprintf(", without the first %d bytes", f.dropped)
		}
		index.writeLine(line)
	}
	index.writeLine("\nLeft out:")
	for _, line := range append(b.leftOut, "Secrets, and the archives of backups: always") {
		index.writeLine("  " + line)
	}
	content, _ := index.lastLines()
	return errors.Join(b.writeEntry(bundleIndex, content), b.tar.Close(), b.compressed.Close())
}
