// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

// Package drain decides what is to be done while control planes leave a seed that is to be empty: which shoot moves
// next and where to, which one waits, which one stays and why, and when nothing more is to be started. It judges a
// Garden and performs no I/O; pkg/garden/drain reads the Garden and carries the decisions out.
//
// Nothing is remembered between two looks. What a drain has to know is in annotations of the Seed and the Shoots, so
// that whoever looks next decides the same.
package drain
