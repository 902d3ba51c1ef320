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
	// opaqueSize is the size from which on a file is looked at before it is
	// compressed. A smaller one shares its block with others.
	opaqueSize = 48 << 10
	sampleSize = 4 << 10
)

// compressor writes one gzip stream. It is fast because it does not look for
// repetitions where there are none: large Secrets, Helm releases above all, are
// base64 of compressed data, on which the fast level gives up and stores them
// as they are, and the slow levels work long for little. What is left to gain
// there are 2 of 8 bits per character, which a Huffman code alone gets at full
// speed. A deflate stream may change its method between any two blocks.
type compressor struct {
	out *bufio.Writer
	// matching looks for repetitions, huffman does not, and active is the one
	// of them in use. The first file needs matching.
	matching, huffman, active *flate.Writer
	probe                     *flate.Writer
	probed                    counter
	checksum                  uint32
	size                      uint32
}

// newCompressor starts a gzip stream on out.
func newCompressor(out io.Writer, level int) (*compressor, error) {
	c := &compressor{out: bufio.NewWriterSize(out, outputBufferSize)}
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
	return c.active.Write(p)
}

// prepare chooses the method for content.
func (c *compressor) prepare(content []byte) error {
	opaque, err := c.opaque(content)
	if err != nil {
		return err
	}
	want := c.matching
	if opaque {
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

// opaque reports whether matching would find next to nothing in content, by
// trying it on a sample from the middle.
func (c *compressor) opaque(content []byte) (bool, error) {
	if len(content) < opaqueSize {
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

// counter is a Writer that counts.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
