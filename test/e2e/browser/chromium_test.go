// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// chromium is a running browser with one tab.
type chromium struct {
	process *exec.Cmd
	// Messages are JSON, each followed by a zero byte.
	requests *os.File
	answers  *bufio.Reader
	session  string
	lastID   int
	// events are those that arrived since openPage.
	events []message
}

// message is a request, an answer or an event of the DevTools protocol.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    any             `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     json.RawMessage `json:"error,omitempty"`
}

// params are the parameters of a request.
type params map[string]any

// startChromium starts a browser that ends with the context.
func startChromium(ctx context.Context, profile string) (*chromium, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, fmt.Errorf("make browser-packages installs it: %w", err)
	}
	theirRequests, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, theirAnswers, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &chromium{requests: requests, answers: bufio.NewReader(answers)}
	c.process = exec.CommandContext(ctx, path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	c.process.ExtraFiles = []*os.File{theirRequests, theirAnswers} // 3 and 4
	if err := c.process.Start(); err != nil {
		return nil, err
	}
	_ = theirRequests.Close()
	_ = theirAnswers.Close()
	context.AfterFunc(ctx, func() { _ = answers.SetReadDeadline(time.Unix(1, 0)) })
	return c, c.openTab()
}

// openTab opens a tab, and turns on its events.
func (c *chromium) openTab() error {
	var target struct{ TargetID string }
	if err := c.call("Target.createTarget", params{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	if err := c.call("Target.attachToTarget", params{"targetId": target.TargetID, "flatten": true}, &attached); err != nil {
		return err
	}
	c.session = attached.SessionID
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		if err := c.call(domain+".enable", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// call sends a request and waits for its answer. Events that arrive before are kept.
func (c *chromium) call(method string, p params, result any) error {
	c.lastID++
	request, err := json.Marshal(message{ID: c.lastID, SessionID: c.session, Method: method, Params: p})
	if err != nil {
		return err
	}
	if _, err := c.requests.Write(append(request, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		answer, err := c.read()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", method, err)
		case answer.ID != c.lastID:
			continue
		case answer.Error != nil:
			return fmt.Errorf("%s: %s", method, answer.Error)
		case result == nil:
			return nil
		}
		return json.Unmarshal(answer.Result, result)
	}
}

// read reads a message, and keeps it if it is an event.
func (c *chromium) read() (message, error) {
	var m message
	data, err := c.answers.ReadBytes(0)
	if err != nil {
		return m, err
	}
	err = json.Unmarshal(data[:len(data)-1], &m)
	if m.Method != "" {
		c.events = append(c.events, m)
	}
	return m, err
}

// openPage opens a page in a window of a width and with a color scheme, and waits until it is loaded.
func (c *chromium) openPage(address, scheme string, width int) error {
	if err := c.call("Emulation.setDeviceMetricsOverride", params{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}, nil); err != nil {
		return err
	}
	features := []params{{"name": "prefers-color-scheme", "value": scheme}}
	if err := c.call("Emulation.setEmulatedMedia", params{"features": features}, nil); err != nil {
		return err
	}
	c.events = nil
	if err := c.call("Page.navigate", params{"url": address}, nil); err != nil {
		return err
	}
	for {
		for _, event := range c.events {
			if event.Method == "Page.loadEventFired" {
				return nil
			}
		}
		if _, err := c.read(); err != nil {
			return fmt.Errorf("loading %s: %w", address, err)
		}
	}
}

// evaluate evaluates an expression in the page.
func (c *chromium) evaluate(expression string, value any) error {
	answer := struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}{}
	if err := c.call("Runtime.evaluate", params{"expression": expression, "returnByValue": true}, &answer); err != nil {
		return err
	}
	if answer.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", expression, answer.ExceptionDetails)
	}
	return json.Unmarshal(answer.Result.Value, value)
}

// complaints returns what the browser logged, and the requests besides that for the page.
func (c *chromium) complaints(address string) []string {
	var found []string
	for _, event := range c.events {
		data, err := json.Marshal(event.Params)
		isOwn := event.Method == "Network.requestWillBeSent" && strings.Contains(string(data), `"documentURL":"`+address+`"`) &&
			strings.Contains(string(data), `"type":"Document"`)
		switch event.Method {
		case "Network.requestWillBeSent", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Page.javascriptDialogOpening":
			if err != nil || !isOwn {
				found = append(found, event.Method+": "+string(data))
			}
		}
	}
	return found
}

// close ends the browser.
func (c *chromium) close() error {
	err := c.call("Browser.close", nil, nil)
	_ = c.process.Wait() // its exit code does not matter
	return err
}
