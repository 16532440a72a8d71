// Copyright The Dray Authors.
// SPDX-License-Identifier: Apache-2.0

// Package config is what the configuration of the plugin says.
//
//	scheduler configuration ── pluginConfig ──► DrayArgs ── Decode ──► Settings
//	file ── read again while the scheduler runs ──► Switches ──► SwitchFile
//
// # Where to look
//
//	args.go      DrayArgs, as people write them
//	settings.go  the same, checked and with defaults
//	switches.go  what can be turned off while the scheduler runs
package config
