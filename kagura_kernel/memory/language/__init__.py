"""What is known of languages: their endings and their words that say nothing."""
