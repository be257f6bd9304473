// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package thread runs functions on threads that end with them.
package thread

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Run calls f on a thread of its own, waits for it, and returns its error. f may change what belongs to a thread, such
// as its namespaces: the thread ends when f returns. A process that f starts stays where the thread was.
func Run(f func() error) error {
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine instead of going back to the pool.
		runtime.LockOSThread()
		if unix.Gettid() == os.Getpid() {
			// The first thread of a process cannot end before the process does. It would keep the namespaces alive with
			// all of their mounts, and /proc/self would show them. It is held until another thread is done.
			defer runtime.UnlockOSThread()
			result <- Run(f)
			return
		}
		result <- f()
	}()
	return <-result
}
