// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Shell is a bash that keeps its variables and functions from one block to the next, like that of an operator.
type Shell struct {
	dir    string
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	out    io.Writer
	blocks int
}

// NewShell starts bash in an empty folder, with these folders in front of its PATH. Close must be called.
func NewShell(path []string, out io.Writer) (*Shell, error) {
	dir, err := os.MkdirTemp("", "livecpm-recovery-")
	if err != nil {
		return nil, fmt.Errorf("failed to make folder for the shell: %w", err)
	}
	s := &Shell{dir: dir, out: out, lines: make(chan string, 1024)}
	s.cmd = exec.Command("bash", "--noprofile", "--norc")
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "PATH="+strings.Join(append(path, os.Getenv("PATH")), ":"))
	// Everything that the commands leave in the background ends with the shell.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	reader, writer := io.Pipe()
	s.cmd.Stdout, s.cmd.Stderr = writer, writer
	s.cmd.WaitDelay = time.Second
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("failed to connect to the shell: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("failed to start the shell: %w", err)
	}
	go func() {
		defer close(s.lines)
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			s.lines <- scanner.Text()
		}
	}()
	go func() { _ = writer.CloseWithError(errors.Join(s.cmd.Wait(), io.EOF)) }()
	return s, nil
}

const endMark = "-- end of block "

// Run executes the commands, shows what they print, and returns it. A block has no exit code of its own: an operator
// looks at what it prints, and so must the caller.
func (s *Shell) Run(ctx context.Context, block Block) (string, error) {
	s.blocks++
	file := filepath.Join(s.dir, fmt.Sprintf("block-%d.sh", s.blocks))
	if err := os.WriteFile(file, []byte(block.Script), 0o600); err != nil {
		return "", fmt.Errorf("failed to write commands: %w", err)
	}
	mark := fmt.Sprintf("%s%d", endMark, s.blocks)
	_, _ = fmt.Fprintf(s.out, "--- %s, line %d\n", block.Section, block.Line)
	// What a command leaves unterminated must not swallow the mark.
	if _, err := fmt.Fprintf(s.in, ". %q </dev/null\nprintf '\\n%%s\\n' %q\n", file, mark); err != nil {
		return "", fmt.Errorf("failed to talk to the shell: %w", err)
	}
	var output strings.Builder
	for {
		select {
		case <-ctx.Done():
			return output.String(),
				fmt.Errorf("the commands of section %q (line %d) did not end: %w", block.Section, block.Line, ctx.Err())
		case line, ok := <-s.lines:
			if !ok {
				return output.String(), fmt.Errorf("the shell ended in section %q (line %d)", block.Section, block.Line)
			}
			if line == mark {
				return output.String(), nil
			}
			if line != "" {
				output.WriteString(line + "\n")
				_, _ = fmt.Fprintln(s.out, "    "+line)
			}
		}
	}
}

// Close ends the shell and everything that it has started, and removes its folder.
func (s *Shell) Close() error {
	_ = s.in.Close()
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("failed to end the shell: %w", err)
	}
	for range s.lines { //nolint:revive // What is left is nobody's.
	}
	return os.RemoveAll(s.dir)
}
