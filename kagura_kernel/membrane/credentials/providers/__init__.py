"""Where credentials come from, one file each; a vendor's library is imported when it is first needed."""
