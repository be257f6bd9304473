// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package screenshots looks at pages in a real browser, without a window: how wide and high they become, and how they
// look.
package screenshots

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// BrowserVariable names the browser to use.
const BrowserVariable = "LIVECPM_BROWSER"

// ErrNoBrowser says that there is no browser.
var ErrNoBrowser = errors.New("no Chromium was found: install chromium-headless-shell or chromium, or name one in " +
	BrowserVariable)

// FindBrowser returns the path of a Chromium.
func FindBrowser() (string, error) {
	if named := os.Getenv(BrowserVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("failed to find the browser that %s names: %w", BrowserVariable, err)
		}
		return path, nil
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// Scheme is a preferred colour scheme.
type Scheme string

// The schemes.
const (
	Light Scheme = "light"
	Dark  Scheme = "dark"
)

// Browser is a Chromium.
type Browser struct {
	// Path is where it is.
	Path string
}

// Look is what a page becomes in a window.
type Look struct {
	// Width and Height are those of its content. A content wider than the window has to be scrolled sideways.
	Width  int `json:"width"`
	Height int `json:"height"`
	// Widest names the element that reaches furthest to the right.
	Widest string `json:"widest"`
	// Background is the colour behind the text.
	Background string `json:"background"`
	// Requests is the number of resources that the page has asked for.
	Requests int `json:"requests"`
	// SmallestText is the size in pixels of the smallest text in a drawing.
	SmallestText float64 `json:"smallestText"`
	// Text is the text of the page.
	Text string `json:"text"`
	// Violations are what the page's Content-Security-Policy has kept it from; only LookAt finds out.
	Violations []string `json:"-"`
}

// measure writes a Look into the document that has the page in a frame, when the page has had a moment to do what it
// does.
const measure = `
const frame = document.getElementById("page");
function look() {
  const win = frame.contentWindow, doc = frame.contentDocument, root = doc.documentElement;
  let widest = "", right = 0, smallest = 1000;
  for (const element of doc.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > right) {
      right = box.right;
      widest = element.tagName + "." + element.getAttribute("class");
    }
    if (element.tagName === "text" && box.height > 0) {
      smallest = Math.min(smallest, parseFloat(win.getComputedStyle(element).fontSize) * element.getScreenCTM().a);
    }
  }
  document.getElementById("look").textContent = JSON.stringify({
    width: Math.max(root.scrollWidth, doc.body.scrollWidth), height: root.scrollHeight, widest: widest,
    background: win.getComputedStyle(doc.body).backgroundColor,
    requests: win.performance.getEntriesByType("resource").length,
    smallestText: smallest, text: doc.body.innerText,
  });
}
frame.addEventListener("load", () => { look(); setTimeout(look, 500); setTimeout(look, 1500); });
const source = document.getElementById("source").textContent;
if (source === "") {
  // The document is taken as it is when all of it has been loaded: this lasts longer than the last look.
  const image = document.body.appendChild(document.createElement("img"));
  image.src = "` + waitPath + `";
  frame.src = "/";
} else {
  frame.srcdoc = new TextDecoder().decode(Uint8Array.from(atob(source), c => c.charCodeAt(0)));
}
`

var lookPattern = regexp.MustCompile(`(?s)<pre id="look">(.*?)</pre>`)

// framed returns a document with the page in a frame of that width, which measures it; without a page it is that of the
// server from which the document comes.
func framed(page string, width int) string {
	return fmt.Sprintf(
		`<!DOCTYPE html><meta charset="utf-8"><body style="margin:0"><iframe id="page" style="border:0;width:%dpx;height:800px"></iframe>`+
			`<pre id="look"></pre><script type="text/plain" id="source">%s</script><script>%s</script>`,
		width, base64.StdEncoding.EncodeToString([]byte(page)), measure)
}

// Look looks at the page in a window of the given width.
func (b Browser) Look(ctx context.Context, page string, width int, scheme Scheme) (Look, error) {
	folder, err := os.MkdirTemp("", "livecpm-look-")
	if err != nil {
		return Look{}, fmt.Errorf("failed to create a folder for the browser: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "frame.html")
	if err := os.WriteFile(file, []byte(framed(page, width)), 0o600); err != nil {
		return Look{}, fmt.Errorf("failed to write the page: %w", err)
	}
	return b.look(ctx, window{folder: folder, scheme: scheme, width: width + 100, height: 1000}, "file://"+file)
}

func (b Browser) look(ctx context.Context, in window, address string) (Look, error) {
	budget := "--virtual-time-budget=2000"
	if in.streams {
		// Virtual time stands still as long as a request has no answer.
		budget = "--timeout=10000"
	}
	dom, err := b.run(ctx, in, budget, "--dump-dom", address)
	if err != nil {
		return Look{}, err
	}
	match := lookPattern.FindSubmatch(dom)
	if match == nil || len(match[1]) == 0 {
		return Look{}, errors.New("the browser did not report what the page looks like")
	}
	var out Look
	if err := json.Unmarshal([]byte(html.UnescapeString(string(match[1]))), &out); err != nil {
		return Look{}, fmt.Errorf("failed to read what the page looks like: %w", err)
	}
	return out, nil
}

// Picture is a picture to write.
type Picture struct {
	// Path is the file to write.
	Path string
	// Width is that of the window.
	Width int
	// Scheme is the colour scheme.
	Scheme Scheme
}

// Write writes a picture of the whole page.
func (b Browser) Write(ctx context.Context, page string, picture Picture) error {
	look, err := b.Look(ctx, page, picture.Width, picture.Scheme)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "livecpm-picture-")
	if err != nil {
		return fmt.Errorf("failed to create a folder for the browser: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	file := filepath.Join(folder, "page.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return fmt.Errorf("failed to write the page: %w", err)
	}
	_, err = b.run(ctx, window{folder: folder, scheme: picture.Scheme, width: picture.Width, height: look.Height},
		"--screenshot="+picture.Path, "file://"+file)
	return err
}

// window is how the browser is started: with a folder of its own, and in which size and colour scheme.
type window struct {
	folder        string
	scheme        Scheme
	width, height int
	// streams reports that the page has a request that does not end.
	streams bool
}

func (b Browser) run(ctx context.Context, in window, arguments ...string) ([]byte, error) {
	preferred := "1"
	if in.scheme == Dark {
		preferred = "0"
	}
	arguments = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
		"--user-data-dir=" + in.folder, "--blink-settings=preferredColorScheme=" + preferred,
		fmt.Sprintf("--window-size=%d,%d", in.width, in.height),
	}, arguments...)
	out, err := exec.CommandContext(ctx, b.Path, arguments...).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("failed to run %s: %w", b.Path, err)
	}
	return out, nil
}
