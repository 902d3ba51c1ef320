// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

const (
	outputBufferSize = 128 << 10
	// minSampledSize is the size from which a file is sampled before it is compressed. A
	// smaller one shares its block with others.
	minSampledSize = 48 << 10
	sampleSize     = 4 << 10
)

// compressor writes one gzip stream. It is fast because it does not search for repetitions
// where there are none. Large Secrets, above all Helm releases, are base64 of compressed
// data. On these, the fast level gives up and stores them uncompressed, and the slow levels
// take long and save little. Base64 uses 6 of 8 bits per character, and a Huffman code
// alone saves the other 2 at full speed. A deflate stream may change its method between any
// two blocks.
type compressor struct {
	out *bufio.Writer
	// stored counts the bytes written by out.
	stored *countingWriter
	limits Limits
	// written is the number of bytes before compression.
	written int64
	// matching searches for repetitions, huffman does not, and active is the one in use.
	// The first file needs matching.
	matching, huffman, active *flate.Writer
	probe                     *flate.Writer
	probed                    discardCounter
	checksum                  uint32
	size                      uint32
}

// newCompressor starts a gzip stream on out, for a reader with the given limits.
func newCompressor(out io.Writer, level int, limits Limits) (*compressor, error) {
	stored := &countingWriter{w: out}
	c := &compressor{out: bufio.NewWriterSize(stored, outputBufferSize), stored: stored, limits: limits}
	var err error
	if c.matching, err = flate.NewWriter(c.out, level); err != nil {
		return nil, fmt.Errorf("starting compression: %w", err)
	}
	c.active = c.matching
	// Magic number, method deflate, no flags, no time, no extra flags, unknown
	// system (RFC 1952).
	_, err = c.out.Write([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff})
	return c, err
}

// Write compresses p with the method in use.
func (c *compressor) Write(p []byte) (int, error) {
	c.checksum = crc32.Update(c.checksum, crc32.IEEETable, p)
	c.size += uint32(len(p)) //nolint:gosec // modulo 2^32, as the format requires
	c.written += int64(len(p))
	return c.active.Write(p)
}

// selectMethod chooses the method for content.
func (c *compressor) selectMethod(content []byte) error {
	opaque, err := c.isIncompressible(content)
	if err != nil {
		return err
	}
	want := c.matching
	if opaque || c.isNearRatioLimit() {
		if c.huffman == nil {
			if c.huffman, err = flate.NewWriter(c.out, flate.HuffmanOnly); err != nil {
				return fmt.Errorf("starting compression: %w", err)
			}
		}
		want = c.huffman
	}
	if want == c.active {
		return nil
	}
	// A flush ends with a block that is not the last one, at a byte boundary.
	if err := c.active.Flush(); err != nil {
		return err
	}
	want.Reset(c.out)
	c.active = want
	return nil
}

// isNearRatioLimit reports whether the stream approaches the compression ratio that a
// reader accepts. Without matching, the ratio is at most eight. Half of the limits leave
// room for the data in buffers, here and in the reader.
func (c *compressor) isNearRatioLimit() bool {
	return c.written > c.limits.RatioFrom/2+c.limits.Ratio/2*c.stored.written
}

// isIncompressible reports whether matching would save almost nothing for content. It tests
// a sample from the middle.
func (c *compressor) isIncompressible(content []byte) (bool, error) {
	if len(content) < minSampledSize {
		return false, nil
	}
	if c.probe == nil {
		var err error
		if c.probe, err = flate.NewWriter(&c.probed, flate.BestSpeed); err != nil {
			return false, fmt.Errorf("starting compression: %w", err)
		}
	}
	c.probed = 0
	c.probe.Reset(&c.probed)
	start := (len(content) - sampleSize) / 2
	if _, err := c.probe.Write(content[start : start+sampleSize]); err != nil {
		return false, err
	}
	if err := c.probe.Close(); err != nil {
		return false, err
	}
	// Text compresses to at most a third, base64 to at least three quarters.
	return c.probed > sampleSize*2/3, nil
}

// Close ends the stream.
func (c *compressor) Close() error {
	if err := c.active.Close(); err != nil {
		return err
	}
	trailer := binary.LittleEndian.AppendUint32(nil, c.checksum)
	trailer = binary.LittleEndian.AppendUint32(trailer, c.size)
	if _, err := c.out.Write(trailer); err != nil {
		return err
	}
	return c.out.Flush()
}

// discardCounter is a Writer that only counts.
type discardCounter int

func (c *discardCounter) Write(p []byte) (int, error) {
	*c += discardCounter(len(p))
	return len(p), nil
}

// countingWriter counts the written bytes.
type countingWriter struct {
	w       io.Writer
	written int64
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.written += int64(n)
	return n, err
}
