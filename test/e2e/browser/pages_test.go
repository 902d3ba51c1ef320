// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPages(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Pages in a browser")
}

// The widths of a phone and of a desktop.
const (
	phone   = 390
	desktop = 1280
)

// widest is the right edge of the rightmost text or box, in pixels. A text that is cut on purpose is not counted.
const widest = `Math.max(document.documentElement.scrollWidth,
	...[...document.querySelectorAll("body *:not(svg svg, svg svg *), svg .tick text, svg .duration")].map(e => e.getBoundingClientRect().right))`

var _ = Describe("Pages", Ordered, ContinueOnFailure, func() {
	var browser *chromium

	BeforeAll(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		DeferCleanup(cancel)
		var err error
		browser, err = startChromium(ctx, GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return browser.close() })
	})

	address := func(file string) string {
		path, err := filepath.Abs(filepath.Join("..", "..", "..", "internal", file))
		Expect(err).NotTo(HaveOccurred())
		return "file://" + path
	}

	DescribeTable("are readable in any window and need nothing else", func(file string) {
		page := address(file)
		backgrounds := map[string]string{}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int{phone, desktop} {
				Expect(browser.openPage(page, scheme, width)).To(Succeed())
				Expect(browser.complaints(page)).To(BeEmpty())
				var right float64
				Expect(browser.evaluate(widest, &right)).To(Succeed())
				Expect(right).To(BeNumerically("<=", width), "width of the page in a window of %d pixels", width)
			}
			var background string
			Expect(browser.evaluate(`getComputedStyle(document.body).backgroundColor + getComputedStyle(document.querySelector("svg .background")).fill`, &background)).To(Succeed())
			backgrounds[background] = scheme
		}
		Expect(backgrounds).To(HaveLen(2), "colors of light and dark")
	},
		Entry("report of a Backup", "report/testdata/backup.html"),
		Entry("report of a Restore in progress", "report/testdata/restore.html"),
		Entry("report with outcomes", "report/testdata/outcomes.html"),
		Entry("report with hostile texts", "report/testdata/hostile.html"),
		Entry("timeline", "timeline/testdata/failed.html"),
	)

	DescribeTable("draw pictures", func(file string) {
		page := address(file)
		Expect(browser.openPage(page, "light", desktop)).To(Succeed())
		Expect(browser.complaints(page)).To(BeEmpty())
		var name string
		Expect(browser.evaluate(`document.documentElement.nodeName`, &name)).To(Succeed())
		Expect(name).To(Equal("svg"), "otherwise it is not well-formed")
	},
		Entry("of a run", "timeline/testdata/completed.svg"),
		Entry("of many operations", "timeline/testdata/operations.svg"),
	)
})
