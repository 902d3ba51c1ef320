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
	// minSampledSize is the size from which on a file is looked at before it is
	// compressed. A smaller one shares its block with others.
	minSampledSize = 48 << 10
	sampleSize     = 4 << 10
)

// compressor writes one gzip stream. It is fast because it does not look for
// repetitions where there are none: large Secrets, Helm releases above all, are
// base64 of compressed data, on which the fast level gives up and stores them
// as they are, and the slow levels work long for little. What is left to gain
// there are 2 of 8 bits per character, which a Huffman code alone gets at full
// speed. A deflate stream may change its method between any two blocks.
type compressor struct {
	out *bufio.Writer
	// stored counts what out has passed on.
	stored *countingWriter
	limits Limits
	// written is how many bytes were compressed.
	written int64
	// matching looks for repetitions, huffman does not, and active is the one
	// of them in use. The first file needs matching.
	matching, huffman, active *flate.Writer
	probe                     *flate.Writer
	probed                    discardCounter
	checksum                  uint32
	size                      uint32
}

// newCompressor starts a gzip stream on out, for a reader with those limits.
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
	c.size += uint32(len(p)) //nolint:gosec // modulo 2^32, as the format wants it
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
	// A flush ends at a byte boundary with a block that is not the last one.
	if err := c.active.Flush(); err != nil {
		return err
	}
	want.Reset(c.out)
	c.active = want
	return nil
}

// isNearRatioLimit reports whether the stream is on its way to exceed what one of its bytes may
// become for a reader. Without matching a byte becomes eight at most. Half of the limits
// leave room for what is still in buffers, here and in the reader's.
func (c *compressor) isNearRatioLimit() bool {
	return c.written > c.limits.RatioFrom/2+c.limits.Ratio/2*c.stored.written
}

// isIncompressible reports whether matching would find next to nothing in content, by
// trying it on a sample from the middle.
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
	// Text comes down to a third at most, base64 to three quarters at least.
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

// discardCounter is a Writer that counts.
type discardCounter int

func (c *discardCounter) Write(p []byte) (int, error) {
	*c += discardCounter(len(p))
	return len(p), nil
}

// countingWriter counts what is written.
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
