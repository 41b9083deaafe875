"""One module for each family of formats; `noisyor.tables.formats` lists them."""
